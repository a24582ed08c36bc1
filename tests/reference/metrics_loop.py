"""Slow twins of stream_occ.evaluation.metrics: plain loops over items, numpy alone.

A person's weight w means that the person's items stand w times in the list.
"""

import numpy as np


def expand(score, person, is_fall, flagged, weight):
    """The items as they stand when person p counts weight[p] times: lists of (score, is_fall, flagged)."""
    items = []
    for i in range(len(score)):
        items += [(float(score[i]), bool(is_fall[i]), bool(flagged[i]))] * int(weight[person[i]])
    return items


def auc(items):
    """Wins of falls over normals in all pairs; a tie is half a win."""
    won, pairs = 0.0, 0
    for fall_score, fall, _ in items:
        for normal_score, other_fall, _ in items:
            if fall and not other_fall:
                pairs += 1
                if fall_score > normal_score:
                    won += 1.0
                elif fall_score == normal_score:
                    won += 0.5
    return won / pairs if pairs else np.nan


def sensitivity_at_share(items, allowed):
    """Best share of falls above a threshold that at most `allowed` normals exceed; every threshold is tried."""
    falls = [score for score, fall, _ in items if fall]
    normals = [score for score, fall, _ in items if not fall]
    if not falls or not normals:
        return np.nan
    best = 0.0
    for threshold in [-np.inf, *falls, *normals]:
        n_false = sum(1 for score in normals if score > threshold)
        if n_false <= allowed:
            best = max(best, sum(1 for score in falls if score > threshold) / len(falls))
    return best


def gmean(items):
    """sqrt of (falls flagged / falls) times (normals not flagged / normals)."""
    falls = [flagged for _, fall, flagged in items if fall]
    normals = [flagged for _, fall, flagged in items if not fall]
    if not falls or not normals:
        return np.nan
    return np.sqrt(sum(falls) / len(falls) * (len(normals) - sum(normals)) / len(normals))
