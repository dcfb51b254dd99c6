// The rows and columns of a window that a dispatch combines: from p.first to p.end, or all of a window whose HEIGHT and
// WIDTH are known when the pipeline is made, which are zeros else. Compilers can write loops over a known window out,
// and if no branch depends on what is inside, all loads are under way at once.

const KNOWN: bool = HEIGHT > 0u;

fn first_cell() -> vec2<u32> { return select(vec2<u32>(p.first.xy), vec2<u32>(), KNOWN); }

fn end_of_cells() -> vec2<u32> { return select(vec2<u32>(p.end.xy), vec2<u32>(HEIGHT, WIDTH), KNOWN); }
