// Which scores take part in a softmax. A masked score is written as -2^127; whatever lies at or below -2^126 is not
// seen. Valid scores, however negative, are nowhere near.
const MASKED: f32 = -1.7014118346046923e38; // -2^127
const INVISIBLE: f32 = -8.507059173023462e37; // -2^126
