async function instantiate(response, imports) {
    if (!response.ok) throw new Error(`${response.url}: the server answered ${response.status}`);
    if (response.headers.get('Content-Type') === 'application/wasm') {
        return WebAssembly.instantiateStreaming(response, imports);
    }
    return WebAssembly.instantiate(await response.arrayBuffer(), imports);
}
