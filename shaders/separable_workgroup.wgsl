//!use separable_pixels
// A depthwise convolution over height and width, and the 1 x 1 convolution behind it, as a product whose operands a
// workgroup shares (lib/workgroup_tile.wgsl). The rows of the product are the pixels between the two. They lie only in
// the workgroup's memory, 16 channels of SIDE pixels at a time, and are computed again for each SIDE channels of y.
// Expects y; what lib/separable_pixels.wgsl and lib/workgroup_tile.wgsl expect. An invocation computes ROWS output
// pixels, along [batch, OH, OW] flattened, x 4 COLUMNS output channels.
