//!use walk
// Steps of four along the rows of a stack of matrices x, wherever their elements lie; zeros behind the end of a row.
// lib/row_steps.wgsl has the same functions for rows that lie one behind the other.
// Expects x; p.M, the rows of a matrix; p.K, their length; p.x_first, where x begins; p.batch, the extents of the
// stack; p.a_batch, the strides along them; p.a_step, whose first two numbers are the strides along the rows and along
// the columns of a matrix.

fn place_of_row(m: u32) -> u32 {
  let matrix = m / p.M;
  return p.x_first + distance(unravel(matrix, p.batch), p.a_batch) + (m - matrix * p.M) * u32(p.a_step.x);
}

fn row_step(place: u32, k: u32) -> vec4<T> {
  return vec4<T>(
    row_element(place, 4u * k),
    row_element(place, 4u * k + 1u),
    row_element(place, 4u * k + 2u),
    row_element(place, 4u * k + 3u),
  );
}

fn row_element(place: u32, k: u32) -> T {
  return select(T(), load_x(place + min(k, p.K - 1u) * u32(p.a_step.y)), k < p.K);
}
