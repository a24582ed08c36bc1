"""Loop-written twin of one-class nearest neighbours: Khan & Ahmad's Algorithms 1 to 5 as printed, slow and plain.

Decisions where the paper is silent (tie rules, 0/0, whether noise trains, one or two sides) are those that OCNN's
docstring names. Lists and math alone; nothing here is shared with the package.
"""

import math

Rows = list[list[float]]


def distance(a: list[float], b: list[float]) -> float:
    """Euclidean distance."""
    return math.sqrt(math.fsum((p - q) ** 2 for p, q in zip(a, b, strict=True)))


def neighbors(z: list[float], rows: Rows, k: int, skip: int | None = None) -> list[tuple[float, int]]:
    """The k nearest rows of z as (distance, number), equal distances by number; row `skip` is passed over."""
    found = [(distance(z, row), number) for number, row in enumerate(rows) if number != skip]
    return sorted(found)[:k]


def own_distance(rows: Rows, number: int, k: int) -> float:
    """Mean distance of a row to its k nearest other rows."""
    return math.fsum(d for d, _ in neighbors(rows[number], rows, k, skip=number)) / k


def median(values: list[float]) -> float:
    """Middle value, or the mean of the two middle ones."""
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def floor_term(rows: Rows, k: int, floor: float) -> float:
    """floor times the median own distance; of the positive ones where that is 0."""
    if floor == 0.0:
        return 0.0
    own = [own_distance(rows, number, k) for number in range(len(rows))]
    middle = median(own)
    positive = [value for value in own if value > 0.0]
    if middle == 0.0 and positive:
        middle = median(positive)
    return floor * middle


def nn_ratio(z: list[float], rows: Rows, j: int, k: int, floor: float = 0.0) -> float:
    """Algorithm 1's ratio of z, with 0/0 = 0 and x/0 = inf."""
    near = neighbors(z, rows, j)
    d_j = math.fsum(d for d, _ in near) / j
    d_k = math.fsum(own_distance(rows, number, k) for _, number in near) / j + floor_term(rows, k, floor)
    if d_j == 0.0:
        return 0.0
    return math.inf if d_k == 0.0 else d_j / d_k


def quartile(values: list[float], share: float) -> float:
    """Quantile by linear interpolation between order statistics."""
    values = sorted(values)
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def distinct(rows: Rows) -> list[int]:
    """Numbers of the rows that no earlier row equals."""
    return [number for number, row in enumerate(rows) if row not in rows[:number]]


def noise(rows: Rows, needed: int, start_tenths: int = 15, upper_only: bool = False) -> list[bool]:
    """Algorithm 2: outside the whiskers of the distance to the mean row, whiskers shrinking until `needed` are."""
    n_features = len(rows[0])
    center = [math.fsum(row[i] for row in rows) / len(rows) for i in range(n_features)]
    far = [distance(row, center) for row in rows]
    q1, q3 = quartile(far, 0.25), quartile(far, 0.75)
    for k in range(start_tenths + 1):
        omega = (start_tenths - k) / 10
        outside = [(not upper_only and d < q1 - omega * (q3 - q1)) or d > q3 + omega * (q3 - q1) for d in far]
        if sum(outside) >= needed:
            return outside
    farthest = sorted(range(len(rows)), key=lambda number: (-far[number], number))[:needed]
    return [number in farthest for number in range(len(rows))]


def fold_sets(
    rows: Rows, is_noise: list[bool], fold: list[int], train_on_noise: bool = False
) -> list[tuple[Rows, Rows, Rows]]:
    """(training rows, tested targets, tested noise) of each fold; noise trains only if told to."""
    numbers = range(len(rows))
    return [
        (
            [rows[i] for i in numbers if fold[i] != g and (train_on_noise or not is_noise[i])],
            [rows[i] for i in numbers if fold[i] == g and not is_noise[i]],
            [rows[i] for i in numbers if fold[i] == g and is_noise[i]],
        )
        for g in range(max(fold) + 1)
    ]


def best_neighbors(
    sets: list[tuple[Rows, Rows, Rows]], j_grid: list[int], k_grid: list[int], floor: float = 0.0
) -> tuple[int, int] | None:
    """Algorithm 3: largest mean over folds of gmean at theta = 1, first met, J outside, K inside; None if all 0."""
    best, best_pair = 0.0, None
    for j in j_grid:
        for k in k_grid:
            gmeans = []
            for train, targets, outliers in sets:
                accepted = sum(nn_ratio(z, train, j, k, floor) < 1.0 for z in targets)
                rejected = sum(not nn_ratio(z, train, j, k, floor) < 1.0 for z in outliers)
                gmeans.append(math.sqrt(accepted / len(targets) * rejected / len(outliers)))
            mean = math.fsum(gmeans) / len(gmeans)
            if mean > best + 1e-12:  # equal means may differ by rounding
                best, best_pair = mean, (j, k)
    return best_pair


def best_theta(sets: list[tuple[Rows, Rows, Rows]], j: int, k: int, floor: float = 0.0) -> float | None:
    """Algorithm 4 on pooled folds: the O(n^2) comparison; None where every gmean is 0."""
    targets, outliers = [], []
    for train, inside, outside in sets:
        targets += [nn_ratio(z, train, j, k, floor) for z in inside]
        outliers += [nn_ratio(z, train, j, k, floor) for z in outside]
    return sweep(targets, outliers)


def sweep(targets: list[float], outliers: list[float]) -> float | None:
    """The candidate ratio with the best gmean as theta; smallest of equals; None where every gmean is 0."""
    best, theta = 0, None
    for candidate in sorted(set(targets + outliers)):
        if not (math.isfinite(candidate) and candidate > 0.0):
            continue
        product = sum(r < candidate for r in targets) * sum(not r < candidate for r in outliers)
        if product > best:
            best, theta = product, candidate
    return theta


def mapped(rows: Rows, matrix: Rows) -> Rows:
    """Rows p = R x."""
    return [[math.fsum(m * v for m, v in zip(direction, row, strict=True)) for direction in matrix] for row in rows]


def accepting_votes(z: list[float], rows: Rows, matrices: list[Rows], thetas: list[float], j: int, k: int) -> int:
    """Algorithm 5: members that accept z, each in its own map of the features."""
    votes = 0
    for matrix, theta in zip(matrices, thetas, strict=True):
        votes += nn_ratio(mapped([z], matrix)[0], mapped(rows, matrix), j, k) < theta
    return votes
