/** Errors of operations on projects. */
import { EngineError } from '../../contract/errors.js';

export const projectExists = (name: string) =>
  new EngineError('unique_violation', `A project "${name}" already exists`);

export const notReady = (name: string) => new EngineError('not_found', `Project "${name}" is not ready`);

/** Cuts the name, since a path may contain anything. */
export const projectNotFound = (name: string) =>
  new EngineError('not_found', `There is no project "${name.slice(0, 63)}"`);

export const needsSuperuser = () =>
  new EngineError('invalid_request', 'Projects on this server cannot have schemas of their own', {
    hint: 'A role that may create schemas may also install trusted extensions. Only a superuser can prevent that: make the role of DATABASE_URL a superuser.',
  });

export const inUseElsewhere = (name: string) =>
  new EngineError(
    'request_in_flight',
    `Project "${name}" is being created, moved, repaired or deleted by another request`,
  );

/** The response to the last step was lost, and so was the connection that could undo it. */
export const perhapsCreated = (name: string, cause: unknown) =>
  new EngineError(
    'outcome_unknown',
    `The connection to Postgres was lost in the last step: check whether project "${name}" exists before retrying`,
    { cause, retryAfter: null },
  );

export const deletedMeanwhile = (name: string) =>
  new EngineError('not_found', `Project "${name}" was deleted while it was being created`);
