/** People in a project: where they are, finding them, handing over, and erasing them. */
import type {
  Declaration,
  EraseResponse,
  Erasure,
  ErasureResponse,
  FindResponse,
  ProposalResponse,
  SubjectBody,
  SubjectsResponse,
} from '../contract/wire/subjects.js';
import { aborted, CdpError } from './error.js';
import { toJson } from './json.js';
import { checkOptions, type Names, READ_NAMES, type ReadOptions } from './options.js';
import { linesIn, readBytes } from './row-stream.js';
import type { ApiCall, Transport } from './transport.js';

const PATH = '/api/cdp/subjects';

export interface FindOptions extends ReadOptions {
  /** Also look through every text and JSONB column of the project for the values. Slow. */
  search?: true;
}

export interface EraseOptions extends ReadOptions {
  /** Roll everything back; the response has `result`. */
  dryRun?: true;
  /** Also rewrite tables and statistics, so that no bytes remain. */
  deep?: true;
}

const FIND_NAMES: Names<FindOptions> = { ...READ_NAMES, search: true };
const ERASE_NAMES: Names<EraseOptions> = { ...READ_NAMES, dryRun: true, deep: true };

const call = (
  method: ApiCall['method'],
  path: string,
  body: object | undefined,
  { signal }: ReadOptions,
  idempotent = true,
): ApiCall => ({
  method,
  path: `${PATH}${path}`,
  ...(body === undefined ? {} : { body: toJson(body) }),
  idempotent,
  signal,
});

export function subjectState<T = SubjectsResponse>(
  transport: Transport,
  path: string,
  declaration: Declaration | undefined,
  options: ReadOptions = {},
): Promise<T> {
  checkOptions(options, READ_NAMES, 'a call about subjects');
  const body = declaration && { subjects: declaration };
  return transport.json<T>(call(body === undefined ? 'GET' : 'PUT', path, body, options));
}

export const subjectProposal = (transport: Transport, options?: ReadOptions): Promise<ProposalResponse> =>
  subjectState<ProposalResponse>(transport, '/proposal', undefined, options);

export function findSubject(transport: Transport, who: SubjectBody, options: FindOptions = {}): Promise<FindResponse> {
  checkOptions(options, FIND_NAMES, 'findSubject');
  return transport.json(call('POST', options.search ? '/find?search=value' : '/find', who, options));
}

/** Where the last line begins. */
const MANIFEST = '{"manifest":';

/**
 * Yields each row as the line of NDJSON that it arrives as; the last line is the manifest.
 * @throws CdpError the error that the service wrote into the stream; network_error if it was interrupted; aborted
 */
export async function* exportSubject(
  transport: Transport,
  who: SubjectBody,
  options: ReadOptions = {},
): AsyncGenerator<string, void> {
  checkOptions(options, READ_NAMES, 'exportSubject');
  const { signal } = options;
  const response = await transport.open(call('POST', '/export', who, options));
  let last = '';
  for await (const lines of linesIn(readBytes(response, signal))) {
    for (const line of lines) {
      if (signal?.aborted) throw aborted(signal);
      if (line.startsWith('{"error":')) {
        const { error } = JSON.parse(line) as { error: { error: CdpError['code']; message: string } };
        throw new CdpError(error.error, error.message);
      }
      last = line;
      yield line;
    }
  }
  if (!last.startsWith(MANIFEST)) throw new CdpError('network_error', 'The export ended without its manifest');
}

export function eraseSubject(
  transport: Transport,
  who: SubjectBody,
  options: EraseOptions = {},
): Promise<EraseResponse> {
  checkOptions(options, ERASE_NAMES, 'eraseSubject');
  const { dryRun, deep } = options;
  const query = [...(deep ? ['deep=true'] : []), ...(dryRun ? ['dry_run=true'] : [])].join('&');
  const path = `/erase${query === '' ? '' : `?${query}`}`;
  // Erasing twice erases nothing more, but only the first response has the nonce of its receipt.
  return transport.json(call('POST', path, who, options, dryRun === true));
}

export async function readErasure(transport: Transport, id: string, options: ReadOptions = {}): Promise<Erasure> {
  checkOptions(options, READ_NAMES, 'erasure');
  const path = `/erasures/${encodeURIComponent(id)}`;
  return (await transport.json<ErasureResponse>(call('GET', path, undefined, options))).erasure;
}
