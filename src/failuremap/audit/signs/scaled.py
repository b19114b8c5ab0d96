"""Parameters whose update is that of the others times a factor: what they have in common names the factor.

one over the elements of each tensor   a divisor that was meant to be the number of ranks
ranks over those of their own group    a fault, where activations cross the ranks: experts
R, M, or the size of a group           a fault; named on sparse gradients, and on whole modules of a sharded model
R/P, on what P of R ranks hold         a fault
1/C, on a weight of C copies           a fault
anything else                          the script's own affair
"""

from __future__ import annotations

from collections.abc import Collection

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences import call_words, words
from failuremap.audit.signs.group_divisors import own_group_size
from failuremap.catalogue.signs import Sign

# sizes of tensors from which on factors of one over the size are no chance
_SIZES = 3
# elements from which on a tensor shows its factor
_FEWEST = 3
# relative difference up to which a factor is the one that a size gives
_SAME = 0.002


def judge_scaled(judged: Judged, scaled: dict[str, float], fitted: Fitted) -> None:
    """Judges parameters that differ from the others by a factor.

    Args:
        judged: Gets a fault for a factor that has a name, and a note on any other.
        scaled: The factor of each of them.
        fitted: The step.
    """
    if _over_elements(scaled, fitted):
        signs = {Sign.SOME_PARAMETERS, Sign.DIVIDED_BY_ELEMENTS}
        sizes = {parameter.name: parameter.size for parameter in fitted.step.parameters}
        judged.faults.append(Fault("scaled by elements", signs, words.over_elements(sizes)))
        return
    ranks, window = len(fitted.step.ranks), judged.micro_batch_count
    groups = set() if fitted.step.sharding is None else fitted.step.sharding.group_sizes
    named = {value for size in {ranks, window, *groups} for value in (size, 1 / size) if size != 1}
    for factor in sorted({round(value, 4) for value in scaled.values()}):
        touched = sorted(name for name, value in scaled.items() if round(value, 4) == factor)
        sentence = words.scaled_parameters(touched, factor)
        if size := own_group_size(fitted.step, touched, factor):
            signs = {Sign.SOME_PARAMETERS, Sign.DIVIDED_BY_OWN_GROUP}
            sentence = call_words.own_group(touched, factor, size, ranks)
            judged.faults.append(Fault(f"scaled parameters {factor} {touched}", signs, sentence, parameters=touched))
        elif any(abs(factor / value - 1) < 0.01 for value in named | _known_of(fitted, touched)):
            signs = {Sign.SOME_PARAMETERS} | _in_common(fitted, touched, scaled)
            fault = Fault(f"scaled parameters {factor} {touched}", signs, sentence, parameters=touched)
            if len(signs) == 1 and _averaged_beside_sums(fitted, factor, window):
                fault.followed, fault.promise = ["mean"], "sum"
            judged.faults.append(fault)
        else:
            judged.notes.append(sentence)


def _averaged_beside_sums(fitted: Fitted, factor: float, window: int) -> bool:
    """Whether a factor is that of a mean over the ranks, and the rule of most is a sum over them."""
    ranks = len(fitted.step.ranks)
    if ranks in {1, window} or abs(factor * ranks - 1) >= 0.01:
        return False
    clusters = fitted.observations[0].clusters
    return bool(clusters) and bool((abs(clusters[0].solution.coefficients - 1) < 0.01).all())


def _known_of(fitted: Fitted, names: Collection[str]) -> set[float]:
    """Factors that a fault in the reduction of these parameters alone would give."""
    pipelines = fitted.step.pipelines
    copies = {tied.names[0]: len(tied.names) for tied in pipelines.alike} if pipelines is not None else {}
    over_copies = {1 / copies[name] for name in names if name in copies}
    return over_copies | _ranks_over_holders(fitted, names)


def _ranks_over_holders(fitted: Fitted, names: Collection[str]) -> set[float]:
    """R/P where P of R ranks have an update of these parameters: what an average over these alone would give."""
    step = fitted.step
    holders = step.present_RP.sum(axis=0).tolist()
    found = {count for parameter, count in zip(step.parameters, holders, strict=True) if parameter.name in names}
    return {len(step.ranks) / count for count in found if len(found) == 1 and 0 < count < len(step.ranks)}


def _over_elements(scaled: dict[str, float], fitted: Fitted) -> bool:
    """Every update is the main rule times a factor in proportion to one over the elements of its tensor."""
    explained = [o.clusters[0].parameters if o.clusters else None for o in fitted.observations]
    products = []
    for p, parameter in enumerate(fitted.step.parameters):
        main = any(follows is not None and follows[p] for follows in explained)
        if parameter.size >= _FEWEST and parameter.name not in scaled and not main:
            return False
        if parameter.size >= _FEWEST:
            products.append(scaled.get(parameter.name, 1.0) * parameter.size)
    sizes = {parameter.size for parameter in fitted.step.parameters}
    return len(sizes) >= _SIZES and max(products) - min(products) <= _SAME * max(products)


def _in_common(fitted: Fitted, touched: Collection[str], scaled: Collection[str]) -> set[Sign]:
    """What tells the parameters of one factor from all others."""
    if set(touched) != set(scaled):
        return set()
    sparse = {parameter.name for parameter in fitted.step.parameters if parameter.sparse}
    dense = {parameter.name for parameter in fitted.step.parameters} - sparse
    signs = {Sign.SPARSE_APART} if sparse and dense and set(touched) in (sparse, dense) else set[Sign]()
    return signs | ({Sign.MODULES_APART} if _are_sharded_modules(fitted, set(touched)) else set[Sign]())


def _are_sharded_modules(fitted: Fitted, touched: set[str]) -> bool:
    """These are all parameters of some modules, in a model that is sharded over the ranks that read other data."""
    sharding, names = fitted.step.sharding, [parameter.name for parameter in fitted.step.parameters]
    if sharding is None or sharding.ranks != fitted.step.ranks:
        return False
    holders = [frozenset(shard.rank for shard in sharding.shards if shard.parameter == p) for p in range(len(names))]
    modules = [{name.rpartition(".")[0] for name in group} for group in (touched, set(names) - touched)]
    return set(holders) == {frozenset(sharding.ranks)} and all(modules) and modules[0].isdisjoint(modules[1])
