// Mean of the row losses over the rows whose target is not IGNORED, and how many those are:
//
//     summary = (sum of row_loss / count, count),   (0, 0) where every row is ignored
//
// One workgroup. Three levels of sums, each in a fixed order, so that the error stays that of a few hundred additions:
//
//     256 invocations, each every 256th row  ->  16 invocations, each 16 of those sums  ->  1 invocation, 16 sums

struct Params {
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> row_loss: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read_write> summary: array<f32>;

const WIDTH: u32 = 256u;
const GROUP: u32 = 16u;
const IGNORED: u32 = 0xffffffffu;

var<workgroup> sums: array<f32, WIDTH>;
var<workgroup> counts: array<u32, WIDTH>;

@compute @workgroup_size(WIDTH)
fn main(@builtin(local_invocation_index) local: u32) {
    var sum = 0.0;
    var count = 0u;
    for (var row = local; row < params.rows; row += WIDTH) {
        let counted = targets[row] != IGNORED;
        sum += select(0.0, row_loss[row], counted);
        count += select(0u, 1u, counted);
    }
    sums[local] = sum;
    counts[local] = count;
    workgroupBarrier(); // all sums are there
    if local < GROUP {
        for (var other = local + GROUP; other < WIDTH; other += GROUP) {
            sum += sums[other];
            count += counts[other];
        }
        sums[local] = sum;
        counts[local] = count;
    }
    workgroupBarrier(); // the sums of the groups are there
    if local == 0u {
        for (var other = 1u; other < GROUP; other += 1u) {
            sum += sums[other];
            count += counts[other];
        }
        summary[0] = sum / f32(max(count, 1u));
        summary[1] = f32(count);
    }
}
