/** What becomes of the schemas of a route, in place of what Fastify would make of all of them at the start. */
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify';
import type { Schema } from '../../contract/schema.js';
import { validator } from '../../engine/json/validator.js';

/** Compiled when the first request needs it. */
const compileValidator: FastifySchemaCompiler<Schema> = ({ schema }) => {
  const errorsOf = validator(schema);
  return (value: unknown) => {
    const error = errorsOf(value);
    return error === null ? true : { error };
  };
};

export const SCHEMA_CONTROLLER: NonNullable<FastifyServerOptions['schemaController']> = {
  compilersFactory: {
    // Fastify declares this one as a function of Ajv's.
    buildValidator: (() => compileValidator) as never,
    // No answer is made by a schema.
    buildSerializer: () => () => JSON.stringify,
  },
};
