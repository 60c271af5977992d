// How one workgroup reduces along the middle axis of [outer, length, inner]: it takes COLUMNS neighbouring results (of
// the outer * inner there are), and SPLITS invocations share each.
//
//   local = split * COLUMNS + column        split s reads positions s, s + SPLITS, s + 2 SPLITS, ... of its column
//
// With inner = 1, COLUMNS is small and neighbours read along the axis; otherwise neighbours read along inner. The last
// step, in split_sum.wgsl and split_maximum.wgsl, is a tree over the splits, always in the same order.
const WIDTH: u32 = 64u;
const COLUMNS: u32 = 1u;
const SPLITS: u32 = WIDTH / COLUMNS;
