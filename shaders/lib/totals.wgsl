// The sum of a row (gpunn/ops/normalization/rows.py): up to 31 bits, and how many of these are integer bits.
struct Total { sum: i32, bits: i32 }
