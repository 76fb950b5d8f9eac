/**
 * Reads from OpenTelemetry's standard variables whether to export traces (specification, "Environment Variable
 * Specification"). The SDK itself reads those for headers, sampler, resource and limits.
 */
import type { TraceExport } from '../service.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Naming a collector, or the exporter `otlp`, turns traces on. An invalid value is reported on standard error and turns
 * them off: platforms set these variables for everything they run, and the service must start anyway.
 * @returns null: no traces
 */
export function tracesFrom(environment: Environment): TraceExport | null {
  const read = (name: string): string | null => environment[`OTEL_${name}`]?.trim() || null;
  if (read('SDK_DISABLED')?.toLowerCase() === 'true') return null;
  const endpoint = read('EXPORTER_OTLP_TRACES_ENDPOINT') ?? read('EXPORTER_OTLP_ENDPOINT');
  const exporter = read('TRACES_EXPORTER') ?? (endpoint === null ? 'none' : 'otlp');
  if (exporter === 'none') return null;
  if (exporter !== 'otlp') return refuse('TRACES_EXPORTER', exporter, 'otlp or none');
  const protocol = read('EXPORTER_OTLP_TRACES_PROTOCOL') ?? read('EXPORTER_OTLP_PROTOCOL') ?? 'http/protobuf';
  if (protocol !== 'http/protobuf' && protocol !== 'http/json') {
    return refuse('EXPORTER_OTLP_PROTOCOL', protocol, 'http/protobuf or http/json (usually port 4318)');
  }
  const propagators = (read('PROPAGATORS') ?? 'tracecontext').split(',').map((name) => name.trim());
  return { protocol, takesContext: propagators.includes('tracecontext') };
}

function refuse(name: string, value: string, expected: string): null {
  process.stderr.write(`cdp: no traces: OTEL_${name} must be ${expected}, not ${JSON.stringify(value)}\n`);
  return null;
}
