// Words of operands in the memory of a loop or bundle, and of constants in its table. The memory is bound by vectors of
// four; places of operands are divisible by four. Expects memory_data and table_data.

fn entry(place: u32) -> i32 { return table_data[place]; }

fn memory_word(place: u32) -> i32 { return memory_data[place >> 2u][place & 3u]; }

fn put_word(place: u32, word: i32) { memory_data[place >> 2u][place & 3u] = word; }

fn copy_words(to: u32, place: u32, count: u32, local: u32) {
  for (var i = local; 4u * i < count; i += WX) { memory_data[(to >> 2u) + i] = memory_data[(place >> 2u) + i]; }
}

fn take_words(to: u32, place: u32, count: u32, local: u32) {
  for (var i = local; i < count; i += WX) { put_word(to + i, entry(place + i)); }
}
