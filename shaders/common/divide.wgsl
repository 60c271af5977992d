// floor(number / divisor) for numbers below 2^30, which is more than a binding holds. Software adapters take integer
// division lane by lane; a strided copy is a fifth faster there without it.
//
// The first quotient in f32 is off by less than 2^8, and so is the remainder in units of the divisor: a second quotient,
// of the remainder, leaves at most 1.
fn divide(number: u32, divisor: u32) -> u32 {
    let n = i32(number);
    let d = i32(divisor);
    let inverse = 1.0 / f32(d);
    let first = i32(f32(n) * inverse);
    let quotient = first + i32(floor(f32(n - first * d) * inverse));
    let rest = n - quotient * d;
    return u32(quotient + select(0, 1, rest >= d) - select(0, 1, rest < 0));
}
