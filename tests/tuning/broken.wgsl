// A body that no compiler takes.

fn compute(i: u32) { nothing }
