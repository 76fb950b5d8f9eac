/** Requests from a source address of choice: all of 127.0.0.0/8 is this machine. */
import { request } from 'node:http';
import type { TestResponse } from './service.js';

/** @param from such as 127.0.0.2 */
export function callFrom(
  from: string,
  url: string,
  headers: Record<string, string>,
  path = '/api/cdp/schema',
): Promise<TestResponse> {
  return new Promise((resolve, reject) => {
    const call = request(url + path, { localAddress: from, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({
          status: response.statusCode ?? 0,
          headers: new Headers(response.headers as Record<string, string>),
          text,
          body: JSON.parse(text) as Record<string, unknown>,
        });
      });
    });
    call.once('error', reject);
    call.end();
  });
}
