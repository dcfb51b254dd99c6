// A result element by element, where one may be a V (gpunn/ops/kernels/each.py). Expects y; element(i), what y has at
// place i; p.count, the V's of y. An invocation computes one V.

fn compute(i: u32) { storev_y(i, element(i)); }
