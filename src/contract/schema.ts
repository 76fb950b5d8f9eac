/**
 * JSON Schemas (draft 7) with the static type of the values they describe, so that no type is written twice. Contains
 * only the keywords that the API needs: a library for all of them was most of the modules to load at startup (decision
 * 0034).
 */

/** The type of the values that a schema describes. Exists only for the compiler. */
declare const DESCRIBED: unique symbol;
/** Marks an optional property and holds its schema. It is a symbol, so that neither a validator nor JSON sees it. */
export const OPTIONAL = Symbol('optional');
/** Keywords only for the OpenAPI document: a value that violates them is refused with an error code of its own. */
export const DOCUMENTED = Symbol('documented');

export interface Schema<T = unknown> {
  readonly [keyword: string]: unknown;
  readonly [DESCRIBED]?: T;
  readonly [DOCUMENTED]?: Keywords;
}

export interface OptionalSchema<T = unknown> extends Schema<T> {
  readonly [OPTIONAL]: Schema<T>;
}

/** The type of the values that a schema describes. */
export type Static<S extends Schema> = S extends Schema<infer T> ? T : never;

type Keywords = Readonly<Record<string | symbol, unknown>>;
type Properties = Readonly<Record<string, Schema>>;
type OptionalKey<P> = { [K in keyof P]: P[K] extends OptionalSchema ? K : never }[keyof P];
type Described<P extends Properties> = Flat<
  { [K in Exclude<keyof P, OptionalKey<P>>]: Static<P[K]> } & { [K in OptionalKey<P>]?: Static<P[K]> }
>;
/** Turns an intersection into one object type. */
type Flat<T> = { [K in keyof T]: T[K] };

type Constant = string | number | boolean;

/** For an object that refuses fields not named in its schema. */
export const STRICT = { additionalProperties: false };

/** Functions that create schemas. The last argument of each adds keywords of JSON Schema. */
export const Type = {
  String: (keywords: Keywords = {}): Schema<string> => ({ type: 'string', ...keywords }),
  Number: (keywords: Keywords = {}): Schema<number> => ({ type: 'number', ...keywords }),
  Integer: (keywords: Keywords = {}): Schema<number> => ({ type: 'integer', ...keywords }),
  Boolean: (keywords: Keywords = {}): Schema<boolean> => ({ type: 'boolean', ...keywords }),
  Null: (): Schema<null> => ({ type: 'null' }),
  /** Any JSON value. */
  Any: (keywords: Keywords = {}): Schema => ({ ...keywords }),
  Literal: <const T extends Constant>(value: T, keywords: Keywords = {}): Schema<T> => ({
    type: typeof value,
    const: value,
    ...keywords,
  }),
  Enum: <const T extends Constant>(values: readonly T[], keywords: Keywords = {}): Schema<T> => ({
    type: typeof values[0],
    enum: values,
    ...keywords,
  }),
  Union: <S extends Schema>(schemas: readonly S[], keywords: Keywords = {}): Schema<Static<S>> => ({
    anyOf: schemas,
    ...keywords,
  }),
  Array: <S extends Schema>(items: S, keywords: Keywords = {}): Schema<Static<S>[]> => ({
    type: 'array',
    items,
    ...keywords,
  }),
  /** An object with any keys; the schema describes its values. */
  Record: <S extends Schema>(values: S, keywords: Keywords = {}): Schema<Record<string, Static<S>>> => ({
    type: 'object',
    additionalProperties: values,
    ...keywords,
  }),
  /** An object whose properties are required, except those marked {@link Type.Optional}. */
  Object: <P extends Properties>(properties: P, keywords: Keywords = {}): Schema<Described<P>> => {
    const required = Object.keys(properties).filter((name) => !(OPTIONAL in (properties[name] ?? {})));
    return { type: 'object', ...(required.length === 0 ? {} : { required }), properties, ...keywords };
  },
  Nullable: <S extends Schema>(schema: S): Schema<Static<S> | null> => ({ anyOf: [schema, Type.Null()] }),
  Optional: <T>(schema: Schema<T>): OptionalSchema<T> => ({ ...schema, [OPTIONAL]: schema }),
} as const;
