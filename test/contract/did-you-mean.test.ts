/** The name that a caller probably meant (src/contract/did-you-mean.ts). */
import { describe, expect, it } from 'vitest';
import { didYouMean } from '../../src/contract/did-you-mean.js';

const COLUMNS = ['id', 'email', 'name', 'first_name', 'created_at', 'country'];

describe('the nearest name', () => {
  it.each([
    ['emial', 'email'],
    ['Email', 'email'],
    ['emails', 'email'],
    ['mail', 'email'],
    ['nmae', 'name'],
    ['firstname', 'first_name'],
    ['createdAt', 'created_at'],
    ['creatd_at', 'created_at'],
    ['contry', 'country'],
  ])('for %s is %s', (name, near) => {
    expect(didYouMean(name, COLUMNS)).toBe(`Did you mean "${near}"?`);
  });

  it.each(['', 'phone', 'xmin', 'exxil', '__proto__', 'constructor'])('for %s does not exist', (name) => {
    expect(didYouMean(name, COLUMNS)).toBeUndefined();
  });

  it('for a text as long as a body does not exist', () => {
    expect(didYouMean('email'.repeat(2_000_000), COLUMNS)).toBeUndefined();
  });

  it('among thousands of similar names is found quickly', () => {
    const names = Array.from({ length: 1_600 }, (_, i) => `${'a'.repeat(58)}${String(i).padStart(4, '0')}`);
    const { user } = process.cpuUsage();
    for (let i = 0; i < 50; i++) expect(didYouMean(`${'a'.repeat(58)}____`, names)).toBeUndefined();
    // A tenth of a second; it was a minute.
    expect(process.cpuUsage().user - user).toBeLessThan(5_000_000);
  });

  it('is the one with fewer typos', () => {
    expect(didYouMean('amount_1', ['amount', 'amount_12', 'amount_2'])).toBe('Did you mean "amount_12"?');
    expect(didYouMean('amount_1', [])).toBeUndefined();
  });
});
