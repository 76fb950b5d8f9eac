/**
 * The functions that build schemas, and the one validator: what a schema contains, what it accepts, and its static
 * type.
 */
import { describe, expect, expectTypeOf, it } from 'vitest';
import { type Schema, type Static, Type } from '../../src/contract/schema.js';
import { describes, thoroughValidator, validator } from '../../src/contract/validator.js';

const Pet = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    kind: Type.Enum(['cat', 'dog']),
    age: Type.Optional(Type.Integer({ minimum: 0 })),
    owner: Type.Union([Type.String({ format: 'uuid' }), Type.Null()]),
    tags: Type.Array(Type.Literal('shy')),
    more: Type.Optional(Type.Record(Type.Boolean())),
  },
  { additionalProperties: false },
);

const REX = { name: 'Rex', kind: 'dog', owner: null, tags: [] };

describe('a thorough validator', () => {
  const errorsOf = thoroughValidator(Pet);
  const tooMany = (count: number) => ({ ...REX, tags: Array.from({ length: count }, () => 'bold') });

  it('finds every error', () => {
    expect(errorsOf(REX)).toBeNull();
    expect(errorsOf({ name: '', kind: 'cow', age: -1, owner: null, tags: ['bold'], colour: 1 })).toHaveLength(5);
    expect(errorsOf(tooMany(9_000))).toHaveLength(9_000);
  });

  it('finds only the first error of a large value', () => {
    expect(errorsOf(tooMany(1_000_000))).toHaveLength(1);
  });
});

describe('a schema', () => {
  it('is plain JSON Schema', () => {
    expect(JSON.parse(JSON.stringify(Pet))).toEqual({
      type: 'object',
      required: ['name', 'kind', 'owner', 'tags'],
      properties: {
        name: { type: 'string', minLength: 1 },
        kind: { type: 'string', enum: ['cat', 'dog'] },
        age: { type: 'integer', minimum: 0 },
        owner: { anyOf: [{ type: 'string', format: 'uuid' }, { type: 'null' }] },
        tags: { type: 'array', items: { type: 'string', const: 'shy' } },
        more: { type: 'object', additionalProperties: { type: 'boolean' } },
      },
      additionalProperties: false,
    });
  });

  it('has no required list if every property is optional', () => {
    expect(Object.keys(Type.Object({ a: Type.Optional(Type.Number()) }))).toEqual(['type', 'properties']);
  });

  it('implies the static type', () => {
    expectTypeOf<Static<typeof Pet>>().toEqualTypeOf<{
      name: string;
      kind: 'cat' | 'dog';
      owner: string | null;
      tags: 'shy'[];
      age?: number;
      more?: Record<string, boolean>;
    }>();
    expectTypeOf(Type.Any()).toEqualTypeOf<Schema>();
  });
});

describe('the validator', () => {
  const isPet = describes(Pet);

  it.each([REX, { ...REX, age: 3, tags: ['shy'], owner: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e', more: { a: true } }])(
    'accepts a value that matches: %j',
    (value) => {
      expect(isPet(value)).toBe(true);
    },
  );

  it.each([
    null,
    [],
    { ...REX, name: '' },
    { ...REX, kind: 'cow' },
    { ...REX, age: 1.5 },
    { ...REX, age: '3' },
    { ...REX, owner: 'nobody' },
    { ...REX, tags: ['loud'] },
    { ...REX, more: { a: 1 } },
    { ...REX, other: 1 },
    { name: 'Rex' },
  ])('refuses a value that does not match, and does not change it: %j', (value) => {
    const before = JSON.stringify(value);
    expect(isPet(value)).toBe(false);
    expect(JSON.stringify(value)).toBe(before);
  });

  it('reports the first error', () => {
    const errors = validator(Pet)({ ...REX, name: '', kind: 'cow' });
    expect(errors).toHaveLength(1);
    expect(errors?.[0]?.instancePath).toMatch(/^\/(name|kind)$/);
  });
});
