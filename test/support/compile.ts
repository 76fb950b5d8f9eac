/** Compiles programs that tests write, with strict compiler options. */
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/**
 * Checks TypeScript files and writes their JavaScript beside them.
 * @param options over those of a careful user
 * @returns what the compiler complains about, as `file:line: message`
 */
export function compile(files: readonly string[], options: ts.CompilerOptions = {}): string[] {
  const program = ts.createProgram(files, {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: ['node'],
    typeRoots: [fileURLToPath(new URL('../../node_modules/@types', import.meta.url))],
    skipLibCheck: true,
    ...options,
  });
  const { diagnostics } = program.emit();
  return [...ts.getPreEmitDiagnostics(program), ...diagnostics].map(({ file, start = 0, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    return `${file?.fileName ?? ''}:${line}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
  });
}
