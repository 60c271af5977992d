// Which scores take part in a softmax. A masked score is written as -2^127; whatever lies at or below -2^126, -inf
// included, is not seen. Valid scores, however negative, are nowhere near. A NaN is seen, and makes its row NaN.
//
// The bits are asked, since compilers may choose what a comparison with a NaN gives. The floats from -2^126 down to -inf
// have the bits from 0xfe800000 to 0xff800000; all others lie further on, and the subtraction wraps around.
const MASKED: f32 = -1.7014118346046923e38; // -2^127
const INVISIBLE: u32 = 0xfe800000u; // the bits of -2^126
const INVISIBLE_RANGE: u32 = 0x01000000u; // from there to the bits of -inf

fn is_visible(score: f32) -> bool {
    return bitcast<u32>(score) - INVISIBLE > INVISIBLE_RANGE;
}

fn are_visible(scores: vec4<f32>) -> vec4<bool> {
    return bitcast<vec4<u32>>(scores) - vec4<u32>(INVISIBLE) > vec4<u32>(INVISIBLE_RANGE);
}
