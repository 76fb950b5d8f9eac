/** Compiles the schemas of routes on first use, not all of them at the start as Fastify does. */
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify';
import type { Schema } from '../../contract/schema.js';
import { thoroughValidator } from '../../contract/validator.js';

const compileValidator: FastifySchemaCompiler<Schema> = ({ schema }) => {
  const errorsOf = thoroughValidator(schema);
  return (value: unknown) => {
    const errors = errorsOf(value);
    if (errors === null) return true;
    return { error: errors.map((each) => ({ ...each, params: { ...each.params, known: fieldsOf(schema) } })) };
  };
};

const fieldsOf = (schema: Schema): string[] => Object.keys((schema as { properties?: object }).properties ?? {});

export const SCHEMA_CONTROLLER: NonNullable<FastifyServerOptions['schemaController']> = {
  compilersFactory: {
    // Fastify types this as a function of Ajv.
    buildValidator: (() => compileValidator) as never,
    // No schema serializes a response.
    buildSerializer: () => () => JSON.stringify,
  },
};
