/**
 * The hostile client, a process of its own at the lowest priority: the benchmark measures what its requests do to the
 * service and to Postgres, not what sending them costs the machine.
 */
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setPriority } from 'node:os';

setPriority(19);
try {
  writeFileSync('/proc/self/autogroup', '19');
} catch {
  // A kernel without autogroups.
}

const RECONNECT_MS = 20;
const counts = { connections: 0, responses: 0, refused: 0, statuses: {} };

process.on('disconnect', () => process.exit(0));
process.on('message', (message) => {
  if (message === 'report') process.send(counts);
  else for (const attack of message.attacks) start(message.port, attack);
});
process.on('SIGINT', () => {});

function start(port, { connections, requests, manner }) {
  for (let i = 0; i < connections; i++) open(port, { requests, manner, next: i });
}

function open(port, attack) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let left = 0;
  let head = '';
  const send = () => {
    const request = attack.requests[attack.next++ % attack.requests.length];
    socket.write(attack.manner === 'unfinished' ? request.subarray(0, request.length - 1) : request);
  };
  socket.on('connect', () => {
    if (counts.connections++ === 0) process.send('begun');
    if (attack.manner === 'unread') socket.pause();
    send();
  });
  // Reads only what it needs to find the end of a response.
  socket.on('data', (chunk) => {
    if (left > 0) {
      left -= chunk.length;
      if (left <= 0) send();
      return;
    }
    head += chunk.toString('latin1', 0, 2_000);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    const length = /content-length: *(\d+)/i.exec(head);
    const status = head.slice(9, 12);
    counts.responses++;
    counts.statuses[status] = (counts.statuses[status] ?? 0) + 1;
    if (status[0] !== '2') counts.refused++;
    head = '';
    // A stream has no length, and is read until it ends.
    left = length === null ? Infinity : Number(length[1]) - (chunk.length - end - 4);
    if (left <= 0) send();
  });
  socket.on('error', () => {});
  socket.on('close', () => setTimeout(() => open(port, attack), RECONNECT_MS));
}
