//!use fold_members terms
// y = finish(acc, place), where acc folds all terms of a result, and place is the result's number.
// Expects x, y; start(), the first term; enter(x), which gives an accumulator; combine(acc, x) of two accumulators;
// resume(acc, before), which chooses acc, or what a kernel before this one has folded; before, of y's shape or absent;
// finish(acc, place); p.outputs (results, in V's) and p.count (terms of each, for finish); p.first and p.terms (terms
// to fold here lie from the one to before the other) and p.share (of a part): y has p.parts results for each, one
// behind all of the others; p.kept and p.reduced (extents), p.kept_stride and p.reduced_stride in V's; ONE_RUN (1: the
// terms have one stride, p.reduced_stride.w). A cooperative group (lib/cooperative.wgsl) shares a result of a part.

fn compute(at: Member) {
  let result = at.group;
  var acc = enterv(startv());
  if (result < p.outputs * p.parts) {
    let start = distance(unravel(result % p.outputs, p.kept), p.kept_stride);
    acc = resumev(acc, loadv_before(result));
    let first = p.first + result / p.outputs * p.share;
    let end = min(first + p.share, p.terms);
    let step = term(GROUP_SIZE);
    var next = term(first + at.rank);
    for (var r = first + at.rank; r < end; r += GROUP_SIZE) {
      acc = combinev(acc, enterv(loadv_x(start + place(next))));
      next = behind(next, step);
    }
  }
  if (GROUP_SIZE > 1u) { acc = folded(at, acc); }
  if (at.rank == 0u && result < p.outputs * p.parts) {
    storev_y(result, finishv(acc, splatv(integer(i32(result)))));
  }
}
