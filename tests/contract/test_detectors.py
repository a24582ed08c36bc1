"""What every detector preset keeps, found by walking the package: nothing here names a detector."""

import warnings
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from stream_occ.detectors import OCNN, RandomProjectionEnsemble, RandomSubspaceEnsemble


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        OCNN(),
        OCNN(n_neighbors=2, k_neighbors=3, floor=1.0),
        RandomProjectionEnsemble(n_estimators=5),
        RandomSubspaceEnsemble(n_estimators=4, combine="mean"),
    ]
)
def test_scikit_learn_contract_holds(estimator: Any, check: Any) -> None:
    """scikit-learn's own estimator checks pass."""
    with warnings.catch_warnings():
        check(estimator)
