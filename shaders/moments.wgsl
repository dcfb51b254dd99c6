//!use fold_members terms
// y = the mean of a part of a result's terms, y_squares = the mean square of how far they are from it: the first half
// of a normalisation by both, the other is shaders/standardize.wgsl. With CENTRED 0 the mean is taken for 0.
// Expects x, y, y_squares; p.outputs (results, in V's); p.terms (V's of each), of which a part has p.share, the last
// one the rest, and p.part_share and p.last_share, 1 / V's of these: y has p.parts results for each, one behind all of
// the others; p.kept (extents) and p.kept_stride, in V's; what lib/terms.wgsl expects; combine(acc, x), a sum; TOGETHER
// (how many elements of a V are terms of one result, which is then in each element of one); lib/by_element.wgsl or
// lib/by_fours.wgsl. A cooperative group (lib/cooperative.wgsl) shares a result of a part.

fn compute(at: Member) {
  let result = at.group;
  let inside = result < p.outputs * p.parts;
  let start = distance(unravel(result % p.outputs, p.kept), p.kept_stride);
  let first = result / p.outputs * p.share;
  let end = select(first, min(first + p.share, p.terms), inside);
  let share = select(p.part_share, p.last_share, end == p.terms);
  let step = term(GROUP_SIZE);

  var mean = V();
  if (CENTRED == 1u) {
    var next = term(first + at.rank);
    for (var r = first + at.rank; r < end; r += GROUP_SIZE) {
      mean += loadv_x(start + place(next));
      next = behind(next, step);
    }
    mean = total(at, mean) * share;
  }

  var squares = V();
  var next = term(first + at.rank);
  for (var r = first + at.rank; r < end; r += GROUP_SIZE) {
    let away = loadv_x(start + place(next)) - mean;
    squares += away * away;
    next = behind(next, step);
  }
  squares = total(at, squares) * share;

  if (at.rank == 0u && inside) {
    storev_y(result, mean);
    storev_y_squares(result, squares);
  }
}

// The sum of what the members of a group bring, for all of them. All of a workgroup must call it.
fn total(at: Member, v: V) -> V {
  var sum = v;
  if (TOGETHER > 1u) { sum = splatv(sum_in(v) * (1.0 / T(TOGETHER))); }
  if (GROUP_SIZE == 1u) { return sum; }
  sum = folded(at, sum);
  workgroupBarrier();
  sum = partial[at.local - at.rank];
  workgroupBarrier();
  return sum;
}
