// Which keys a query sees. A causal mask is aligned bottom-right: query i sees key j if and only if j <= i + Tk - Tq.

// How many of the first keys a query sees.
fn visible_keys(query_index: u32) -> u32 {
    let reach = query_index + 1u + params.key_length;
    let causal = min(params.key_length, select(0u, reach - params.query_length, reach > params.query_length));
    return select(params.key_length, causal, params.causal != 0u);
}

// The first query that sees a key.
fn first_query(key_index: u32) -> u32 {
    let reach = key_index + params.query_length;
    let causal = select(0u, reach - params.key_length, reach > params.key_length);
    return select(0u, causal, params.causal != 0u);
}
