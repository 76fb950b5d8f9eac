/** Counters over time windows, and the part of an address that they count by. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { WindowCounter, WrongTokenLimiter } from '../../../src/engine/access/rate-limits.js';
import { networkOf } from '../../../src/ip-address.js';
import { EngineError } from '../../../src/contract/errors.js';

describe('the network of an address', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:1::5:6:7:8', '2001:db8:1:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['::2:3:4:5:6:7:8', '0:2:3:4::/64'],
    ['', ''],
  ])('of %s is %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});

describe('a counter', () => {
  it('counts each key separately, and starts at 0 once its window is over', async () => {
    const counter = new WindowCounter(50, 10);
    expect([counter.add('a'), counter.add('a'), counter.add('b')]).toEqual([1, 2, 1]);
    expect(counter.of('a')).toBe(2);
    await sleep(60);
    expect(counter.of('a')).toBe(0);
    expect(counter.add('a')).toBe(1);
  });

  it('does not extend a window by counting in it', async () => {
    const counter = new WindowCounter(60_000, 10);
    counter.add('a');
    expect(counter.secondsLeft('a')).toBe(60);
    await sleep(1_000);
    counter.add('a');
    expect(counter.secondsLeft('a')).toBeLessThan(60);
  });

  it('remembers a limited number of keys, and forgets the least recently used one', () => {
    const counter = new WindowCounter(60_000, 3);
    for (const key of ['a', 'b', 'c', 'a', 'd']) counter.add(key);
    expect(['a', 'b', 'c', 'd'].map((key) => counter.of(key))).toEqual([2, 0, 1, 1]);
  });
});

describe('wrong tokens', () => {
  const refusal = new EngineError('unauthorized', 'wrong');

  it('from many addresses use bounded memory, and pending lookups keep none of it', () => {
    const tokens = new WrongTokenLimiter(1);
    for (let i = 0; i < 50_000; i++) {
      const address = `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
      tokens.beginLookUp(address)();
      expect(tokens.countWrongToken(address, refusal)).toBe(refusal);
    }
    // The last ones are remembered, the first ones are not.
    expect(tokens.countWrongToken('10.0.195.79', refusal).code).toBe('rate_limited');
    expect(tokens.countWrongToken('10.0.0.0', refusal)).toBe(refusal);
  });

  it('are not limited if the limit is 0', () => {
    const tokens = new WrongTokenLimiter(0);
    for (let i = 0; i < 1_000; i++) {
      tokens.beginLookUp('192.0.2.1');
      expect(tokens.countWrongToken('192.0.2.1', refusal)).toBe(refusal);
    }
  });

  it('are not looked up hundreds at a time', () => {
    const tokens = new WrongTokenLimiter(30);
    const answered = Array.from({ length: 100 }, () => tokens.beginLookUp('192.0.2.1'));
    expect(() => tokens.beginLookUp('192.0.2.1')).toThrow(EngineError);
    expect(() => tokens.beginLookUp('192.0.2.2')).not.toThrow();
    answered[0]?.();
    expect(() => tokens.beginLookUp('192.0.2.1')).not.toThrow();
  });
});
