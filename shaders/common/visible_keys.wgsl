// How many keys query number `query` of its matrix sees; they are the first ones. Causal: key j is seen iff
// j <= query + Tk - Tq, so the last query sees every key and, where Tq > Tk, early queries see none.
fn visible_keys(query: u32) -> u32 {
    if params.causal == 0u {
        return params.key_length;
    }
    let end = query + 1u + params.key_length;
    return select(0u, end - params.query_length, end > params.query_length);
}
