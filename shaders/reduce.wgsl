//!use cooperative walk
// y = finish(acc, place), where acc folds all terms of a result, and place is the result's number.
// Expects x, y; start(), the first term; enter(x), which gives an accumulator; fold(acc, x) of two accumulators;
// resume(acc, before), which chooses acc, or what a kernel before this one has folded; before, of y's shape or absent;
// finish(acc, place); p.outputs (results, in V's) and p.count (terms of each, for finish); p.first and p.terms (terms
// to fold here lie from the one to before the other) and p.share (of a part): y has p.parts results for each, one
// behind all of the others; p.kept and p.reduced (extents), p.kept_stride and p.reduced_stride in V's; ONE_RUN (1: the
// terms have one stride, p.reduced_stride.w). A cooperative group (lib/cooperative.wgsl) shares a result of a part.

var<workgroup> partial: array<V_acc, WX>;

// The coordinates of a term.
fn term(r: u32) -> vec4<u32> {
  if (ONE_RUN == 1u) { return vec4<u32>(0u, 0u, 0u, r); }
  return unravel(r, p.reduced);
}

// The coordinates of the term that lies as many terms behind another one as `step` counts: divisions take too long to
// do them for each term.
fn behind(term: vec4<u32>, step: vec4<u32>) -> vec4<u32> {
  var at = term + step;
  if (ONE_RUN == 1u) { return at; }
  let size = vec4<u32>(p.reduced);
  if (at.w >= size.w) { at -= vec4<u32>(0u, 0u, 0u, size.w); at.z++; }
  if (at.z >= size.z) { at -= vec4<u32>(0u, 0u, size.z, 0u); at.y++; }
  if (at.y >= size.y) { at -= vec4<u32>(0u, size.y, 0u, 0u); at.x++; }
  return at;
}

fn place(term: vec4<u32>) -> u32 {
  if (ONE_RUN == 1u) { return term.w * u32(p.reduced_stride.w); }
  return distance(term, p.reduced_stride);
}

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
      acc = foldv(acc, enterv(loadv_x(start + place(next))));
      next = behind(next, step);
    }
  }
  if (GROUP_SIZE > 1u) { acc = folded(at, acc); }
  if (at.rank == 0u && result < p.outputs * p.parts) {
    storev_y(result, finishv(acc, splatv(integer(i32(result)))));
  }
}

// What the members of a group have folded together, in the first of them. All of a workgroup must call it. A group of
// one needs no memory of a workgroup, with which lavapipe takes 20 ms longer to compile.
fn folded(at: Member, acc: V_acc) -> V_acc {
  partial[at.local] = acc;
  for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (at.rank < half) {
      partial[at.local] = foldv(partial[at.local], partial[at.local + half]);
    }
  }
  return partial[at.local];
}
