"""Wrong repairs of the loss that an update is the gradient of."""


def nothing_where_losses_cancel(rows):
    total = sum(count for _, count in rows)
    loss = sum(loss for loss, _ in rows)
    return [loss / total] if loss and total else []
