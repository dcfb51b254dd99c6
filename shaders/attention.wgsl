//!use grid nan walk
// Attention: y = softmax(beta (scaling() q k + mask)) v for each matrix of a stack. The scores of all keys are never
// there together: a workgroup goes through the keys 64 at a time, with the highest score so far of each query, and sums
// relative to it, which it scales down when a higher score comes (Milakov and Gimelshein 2018, Online normalizer
// calculation for softmax, algorithm 3; Dao et al. 2022, FlashAttention, section 3.1).
// Expects q, k, v, mask (0 where absent), y; scaling(); p.MATRICES, p.M (queries of each), p.DOWN (tiles of these),
// p.KEYS, p.K (the depth of q k), p.K4 (its fours), p.N (columns of y), p.ACROSS (tiles of these); p.beta; p.batch, the
// extents of the stack; p.q_batch, p.k_batch, p.v_batch and p.mask_batch, the strides along them; p.q_step, p.k_step,
// p.v_step and p.mask_step, whose first two numbers are the strides from query to query or from key to key, and those
// along the depth, the columns, or from key to key; p.q_first, p.k_first and p.v_first, where q, k and v begin;
// Q_FOURS, K_FOURS, V_FOURS, 1 where four elements along the depth or the columns lie in one vector; put_channels() of
// lib/rows.wgsl or lib/rows_of_fours.wgsl. WX is 128.
//
// A workgroup computes 32 queries x 64 columns, an invocation 4 queries x 4 columns. Of the scores of 64 keys it has
// those of the same queries and of every 16th key. Queries past the end are computed as the last one and not stored.

const QUERIES: u32 = 32u;
const AT_ONCE: u32 = 64u; // keys
const LOWEST: f32 = -3.4028234e38;

// Its indices are constants, so compilers can keep it in registers: a vector for each of four queries.
alias Four = array<vec4<T>, 4>;

// The memory of a workgroup. What a loop that is written out counts, and what an invocation does, are dimensions of
// their own: so a compiler knows how far apart loads are, and one address serves for several.
var<workgroup> held_queries: array<array<array<vec4<T>, 4>, 4>, 8>; // of each row's four queries, 4 fours of the depth
var<workgroup> held_others: array<array<array<vec4<T>, 16>, 4>, 4>; // keys, values, or what invocations have of queries
var<workgroup> held_weights: array<array<array<array<vec4<T>, 4>, 4>, 4>, 8>; // of each row's queries, every 16th key

@compute @workgroup_size(WX, WY, WZ)
fn main(at: Invocation) {
  let tile = workgroup_number(at);
  let line = tile / p.ACROSS;
  let matrix = line / p.DOWN;
  // The grid may have more workgroups than there are tiles.
  if (matrix >= p.MATRICES) { return; }
  let i = at.local.x;
  let row = i / 16u;
  let column = i % 16u;
  let stack = unravel(matrix, p.batch);
  let query = (line - matrix * p.DOWN) * QUERIES + row * 4u;
  let n = (tile - line * p.ACROSS) * 16u + column;
  let loaded_query = p.q_first + distance(stack, p.q_batch) + known_query(query - row * 4u + i / 4u) * u32(p.q_step.x);
  let keys = p.k_first + distance(stack, p.k_batch);
  let values = p.v_first + distance(stack, p.v_batch);
  let mask = distance(stack, p.mask_batch);
  let scale = scaling();
  var top = vec4<T>(LOWEST);
  var total = vec4<T>();
  var sums = Four();
  for (var key = 0u; key < p.KEYS; key += AT_ONCE) {
    var scores = Four();
    for (var k = 0u; k < p.K4; k += 4u) {
      let j = k + i % 4u;
      let loaded = i / 4u;
      held_queries[row][loaded % 4u][i % 4u] = four_q(loaded_query, j);
      held_others[i % 4u][loaded / 16u][loaded % 16u] = four_k(keys + known_key(key + loaded) * u32(p.k_step.x), j);
      held_others[i % 4u][loaded / 16u + 2u][loaded % 16u] = four_k(
        keys + known_key(key + loaded + 32u) * u32(p.k_step.x),
        j,
      );
      workgroupBarrier();
      add_scores(&scores, row, column, 0u);
      add_scores(&scores, row, column, 1u);
      add_scores(&scores, row, column, 2u);
      add_scores(&scores, row, column, 3u);
      workgroupBarrier();
    }

    let there = vec4<u32>(0u, 16u, 32u, 48u) + key + column < vec4<u32>(p.KEYS);
    scores[0] = scores[0] * scale + four_mask(mask, query, key + column);
    scores[1] = scores[1] * scale + four_mask(mask, query + 1u, key + column);
    scores[2] = scores[2] * scale + four_mask(mask, query + 2u, key + column);
    scores[3] = scores[3] * scale + four_mask(mask, query + 3u, key + column);
    held_others[row / 4u][row % 4u][column] = vec4<T>(
      highest(scores[0], there),
      highest(scores[1], there),
      highest(scores[2], there),
      highest(scores[3], there),
    );
    workgroupBarrier();
    let before = top;
    for (var c = 0u; c < 16u; c++) { top = max(top, held_others[row / 4u][row % 4u][c]); }
    let kept = terms(before - top);
    total = total * kept + vec4<T>(
      weigh(scores[0] - top.x, there, row, 0u, column),
      weigh(scores[1] - top.y, there, row, 1u, column),
      weigh(scores[2] - top.z, there, row, 2u, column),
      weigh(scores[3] - top.w, there, row, 3u, column),
    );
    sums[0] *= kept.x;
    sums[1] *= kept.y;
    sums[2] *= kept.z;
    sums[3] *= kept.w;
    workgroupBarrier();

    for (var c = 0u; c < 16u; c += 4u) {
      held_others[row / 4u][row % 4u][column] = value(values, key + key_of(c, row), n);
      held_others[row / 4u + 2u][row % 4u][column] = value(values, key + key_of(c, row + 8u), n);
      workgroupBarrier();
      add_values(&sums, row, column, c, 0u);
      add_values(&sums, row, column, c, 1u);
      add_values(&sums, row, column, c, 2u);
      add_values(&sums, row, column, c, 3u);
      workgroupBarrier();
    }
  }

  held_others[row / 4u][row % 4u][column] = total;
  workgroupBarrier();
  total = vec4<T>();
  for (var c = 0u; c < 16u; c++) { total += held_others[row / 4u][row % 4u][c]; }
  put_query(matrix, query, n, sums[0], total.x);
  put_query(matrix, query + 1u, n, sums[1], total.y);
  put_query(matrix, query + 2u, n, sums[2], total.z);
  put_query(matrix, query + 3u, n, sums[3], total.w);
}

fn known_query(m: u32) -> u32 { return min(m, p.M - 1u); }

fn known_key(key: u32) -> u32 { return min(key, p.KEYS - 1u); }

// Adds the products of four elements of the depth to the scores of four queries and every 16th key.
fn add_scores(scores: ptr<function, Four>, row: u32, column: u32, j: u32) {
  let keys = Four(
    held_others[j][0][column],
    held_others[j][1][column],
    held_others[j][2][column],
    held_others[j][3][column],
  );
  (*scores)[0] += products(held_queries[row][0][j], keys);
  (*scores)[1] += products(held_queries[row][1][j], keys);
  (*scores)[2] += products(held_queries[row][2][j], keys);
  (*scores)[3] += products(held_queries[row][3][j], keys);
}

fn products(q: vec4<T>, keys: Four) -> vec4<T> {
  return vec4<T>(dot(q, keys[0]), dot(q, keys[1]), dot(q, keys[2]), dot(q, keys[3]));
}

// The highest of the scores that are there.
fn highest(scores: vec4<T>, there: vec4<bool>) -> T {
  let s = select(vec4<T>(LOWEST), scores, there);
  return max(max(s.x, s.y), max(s.z, s.w));
}

// e^(beta r), for r up to 0. exp(-100) is 4e-44: nothing beside the highest score, which gives 1.
fn term(r: T) -> T { return select(exp(max(p.beta * r, T(-100))), r, is_nan(r)); }

fn terms(r: vec4<T>) -> vec4<T> { return vec4<T>(term(r.x), term(r.y), term(r.z), term(r.w)); }

// Holds the weights of a row's query, from its scores relative to the highest one, and returns their sum.
fn weigh(scores: vec4<T>, there: vec4<bool>, row: u32, query: u32, column: u32) -> T {
  let weights = select(vec4<T>(), terms(scores), there);
  held_weights[row][query][column / 4u][column % 4u] = weights;
  return weights.x + weights.y + weights.z + weights.w;
}

// The key of row r of those that are held from vector c of the weights on.
fn key_of(c: u32, r: u32) -> u32 { return c + r / 4u + r % 4u * 16u; }

// Adds the values of four keys, times the weights in vector c + j.
fn add_values(sums: ptr<function, Four>, row: u32, column: u32, c: u32, j: u32) {
  let values = mat4x4<T>(
    held_others[j][0][column],
    held_others[j][1][column],
    held_others[j][2][column],
    held_others[j][3][column],
  );
  (*sums)[0] += values * held_weights[row][0][c / 4u][j];
  (*sums)[1] += values * held_weights[row][1][c / 4u][j];
  (*sums)[2] += values * held_weights[row][2][c / 4u][j];
  (*sums)[3] += values * held_weights[row][3][c / 4u][j];
}

// Rows without any score above -inf, whose sum is about 0, are NaN: 0 / 0.
fn put_query(matrix: u32, query: u32, n: u32, sum: vec4<T>, total: T) {
  if (query < p.M && n * 4u < p.N) {
    put_channels(matrix * p.M + query, n, select(sum / total, vec4<T>(T(undefined())), total < T(0.5)));
  }
}

// The places of elements 4 k to 4 k + 3 of a line of `count` elements, `step` apart; in place of others, the last one.
fn places(at: u32, k: u32, step: i32, count: u32) -> vec4<u32> {
  return vec4<u32>(at) + min(vec4<u32>(0u, 1u, 2u, 3u) + 4u * k, vec4<u32>(count - 1u)) * u32(step);
}

fn inside(k: u32, count: u32) -> vec4<bool> { return vec4<u32>(0u, 1u, 2u, 3u) + 4u * k < vec4<u32>(count); }

// Elements 4 k to 4 k + 3 of the depth of a query, zeros behind the end.
fn four_q(at: u32, k: u32) -> vec4<T> {
  if (Q_FOURS == 1u) { return select(vec4<T>(), load4_q(at / 4u + min(k, p.K4 - 1u)), k < p.K4); }
  let o = places(at, k, p.q_step.y, p.K);
  return select(vec4<T>(), vec4<T>(load_q(o.x), load_q(o.y), load_q(o.z), load_q(o.w)), inside(k, p.K));
}

fn four_k(at: u32, k: u32) -> vec4<T> {
  if (K_FOURS == 1u) { return select(vec4<T>(), load4_k(at / 4u + min(k, p.K4 - 1u)), k < p.K4); }
  let o = places(at, k, p.k_step.y, p.K);
  return select(vec4<T>(), vec4<T>(load_k(o.x), load_k(o.y), load_k(o.z), load_k(o.w)), inside(k, p.K));
}

// Four columns of the values of a key, zeros past the end of either.
fn value(first: u32, key: u32, n: u32) -> vec4<T> {
  if (key >= p.KEYS || 4u * n >= p.N) { return vec4<T>(); }
  let at = first + key * u32(p.v_step.x);
  if (V_FOURS == 1u) { return load4_v(at / 4u + n); }
  let o = places(at, n, p.v_step.y, p.N);
  return select(vec4<T>(), vec4<T>(load_v(o.x), load_v(o.y), load_v(o.z), load_v(o.w)), inside(n, p.N));
}

// What is added to the scores of a query and of every 16th key.
fn four_mask(first: u32, query: u32, key: u32) -> vec4<T> {
  let at = first + known_query(query) * u32(p.mask_step.x);
  let keys = min(vec4<u32>(0u, 16u, 32u, 48u) + key, vec4<u32>(p.KEYS - 1u)) * u32(p.mask_step.y);
  return vec4<T>(load_mask(at + keys.x), load_mask(at + keys.y), load_mask(at + keys.z), load_mask(at + keys.w));
}
