/** HTTP requests as bytes, and single requests for everything that is not measured. */

/** A whole request. `body` is an object that becomes JSON, or bytes. */
export function httpRequest({ method = 'POST', path, headers = {}, body = '' }) {
  const bytes =
    Buffer.isBuffer(body) || typeof body === 'string' ? Buffer.from(body) : Buffer.from(JSON.stringify(body));
  const lines = {
    Host: '127.0.0.1',
    ...headers,
    ...(bytes.length === 0 ? {} : { 'Content-Type': 'application/json', 'Content-Length': bytes.length }),
  };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${head.join('')}\r\n`), bytes]);
}

/** @returns the parsed response. @throws Error for a status other than 2xx */
export async function call(url, { method = 'POST', headers = {}, body } = {}) {
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text.slice(0, 600)}`);
  return text === '' ? null : JSON.parse(text);
}
