/** Describes every error that the validator found in a body or query. */
import type { FastifyError } from 'fastify';
import { ErrorCollector } from '../../contract/error-collector.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import { EngineError } from '../../contract/errors.js';
import { patternInWords } from '../../contract/patterns.js';

type Complaint = NonNullable<FastifyError['validation']>[number];

export function validationError(error: FastifyError): EngineError {
  const root = error.validationContext === 'querystring' ? 'query' : (error.validationContext ?? '');
  const errors = new ErrorCollector();
  for (const [complaint, ...alternatives] of grouped(error.validation ?? [])) {
    const place = `${root}${complaint.instancePath.replaceAll('/', '.')}`;
    errors.add('invalid_request', () => ({
      message: `${place} ${inWords(complaint, alternatives)}`,
      ...hintFor(root, complaint),
    }));
  }
  const options = { cause: error };
  return errors.toError(options) ?? new EngineError('invalid_request', `The ${root} is not valid`, options);
}

/** A hint for a misspelled parameter or top-level field of the body. */
function hintFor(
  root: string,
  { instancePath, params: { additionalProperty, known: fields } }: Complaint,
): { hint?: string } {
  const names = fields as string[] | undefined;
  if (typeof additionalProperty !== 'string' || instancePath !== '' || !names?.length) return {};
  const hint = didYouMean(additionalProperty, names);
  if (hint !== undefined) return { hint };
  return root === 'query' ? { hint: `The parameters are ${names.join(', ')}` } : {};
}

/**
 * For a value that matches none of several schemas, the validator reports an error of each, then that of `anyOf`; they
 * become one.
 */
function grouped(complaints: readonly Complaint[]): [Complaint, ...Complaint[]][] {
  const groups: [Complaint, ...Complaint[]][] = [];
  for (const complaint of complaints) {
    const { keyword, schemaPath, instancePath } = complaint;
    const alternatives: Complaint[] = [];
    while (keyword === 'anyOf' && groups.length > 0) {
      const [before] = groups.at(-1) as [Complaint];
      if (!before.schemaPath.startsWith(`${schemaPath}/`) || !before.instancePath.startsWith(instancePath)) break;
      groups.pop();
      alternatives.unshift(before);
    }
    groups.push([complaint, ...alternatives]);
  }
  return groups;
}

function inWords({ keyword, params, message }: Complaint, alternatives: readonly Complaint[]): string {
  const { type, limit, missingProperty, additionalProperty, allowedValue, allowedValues } = params;
  switch (keyword) {
    case 'anyOf': {
      const other = alternatives.find((alternative) => alternative.keyword !== 'type');
      if (other !== undefined) return inWords(other, []);
      return `must be ${alternatives.map((alternative) => kindOf(alternative.params.type)).join(' or ')}`;
    }
    case 'required':
      return `must have the field ${JSON.stringify(missingProperty)}`;
    case 'additionalProperties':
      return `has an unknown field ${JSON.stringify(additionalProperty)}`;
    case 'type':
      return `must be ${kindOf(type)}`;
    case 'const':
      return `must be ${JSON.stringify(allowedValue)}`;
    case 'enum':
      return `must be one of ${(allowedValues as unknown[]).join(', ')}`;
    case 'minimum':
      return `must be at least ${String(limit)}`;
    case 'maximum':
      return `must be at most ${String(limit)}`;
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must have at least ${String(limit)} characters`;
    case 'maxLength':
      return `must have at most ${String(limit)} characters`;
    case 'minItems':
      return limit === 1 ? 'must not be empty' : `must have at least ${String(limit)} items`;
    case 'maxItems':
      return `must have at most ${String(limit)} items`;
    case 'uniqueItems':
      return 'must not have the same item twice';
    case 'pattern': {
      const words = patternInWords(String(params.pattern));
      return words === undefined ? `must match the pattern ${String(params.pattern)}` : `must be ${words}`;
    }
    case 'format':
      return params.format === 'date-time'
        ? 'must be a date and time such as "2026-01-31T09:30:00Z"'
        : `must be a valid ${String(params.format)}`;
    default:
      return message ?? 'is not valid';
  }
}

function kindOf(type: unknown): string {
  if (type === 'null') return 'null';
  return `${/^[aio]/.test(String(type)) ? 'an' : 'a'} ${String(type)}`;
}
