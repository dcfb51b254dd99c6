// Stored integers of two operands, counted from their zero points.
// Expects p.zeros (the zero points of input, filter and result).

fn enter(x: V) -> V { return x - p.zeros.x; }

// Elements of a filter, counted from its zero point.
fn weigh(w: V) -> V { return w - p.zeros.y; }
