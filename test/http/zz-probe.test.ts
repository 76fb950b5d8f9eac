import { it } from 'vitest';
import { startTestService } from '../support/service.js';
import { connect, exchange } from '../support/raw.js';
import { setTimeout as sleep } from 'node:timers/promises';
it('probe', async () => {
  const s = await startTestService({ 'request-timeout-ms': '4000' });
  console.log(JSON.stringify(await exchange(s.url, 'GET /api/cdp/schema HTTP/1.1\r\n\r\n')));
  console.log(JSON.stringify(await exchange(s.url, 'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: a-miracle\r\n\r\n')));
  console.log(JSON.stringify(await exchange(s.url, `GET /healthz HTTP/1.1\nHost: x\r\nContent-Length: 0\n\nPOST / HTTP/1.1\r\n\r\n`)));
  const t0 = performance.now();
  const sockets = await Promise.all(Array.from({ length: 3_000 }, () => connect(s.url)));
  console.log('connected', performance.now() - t0);
  let closed = 0, ended = 0;
  for (const k of sockets) k.resume().once('close', () => closed++).once('end', () => ended++);
  for (let i = 0; i < 12; i++) { await sleep(1000); console.log(Math.round(performance.now() - t0), closed, ended, sockets.filter((k) => k.destroyed).length); }
  await s.close();
});
