"""Wrong repairs of a split of examples over ranks."""


def in_blocks(split):
    examples, count = split
    size = -(-len(examples) // count)
    return [examples[rank * size : (rank + 1) * size] for rank in range(count)]


def padded(split):
    examples, count = split
    padding = -len(examples) % count
    padded = examples + examples[:padding]
    return [padded[rank::count] for rank in range(count)]


def remainder_dropped(split):
    examples, count = split
    whole = len(examples) // count * count
    return [examples[:whole][rank::count] for rank in range(count)]


def ranks_without_examples_left_out(split):
    examples, count = split
    return [examples[rank::count] for rank in range(min(count, len(examples)))]
