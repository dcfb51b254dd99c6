// How bytes are stored that a window sees one by one: four of them, which share a word, at once. Rows begin with a
// word. Expects y.

var<private> seen_last: vec4<i32>;

fn put_seen(i: u32, v: i32) {
  seen_last = vec4<i32>(seen_last.yzw, v);
  if (i % 4u == 3u) { store4_y(i / 4u, seen_last); }
}
