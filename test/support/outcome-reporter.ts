/**
 * The outcome of a vitest run. At the end, it names each test that passed only when retried, with its first failure. If
 * CDP_TEST_OUTCOME names a file, it writes there how many tests passed and which failed, for `.ci/run`.
 */
import { writeFileSync } from 'node:fs';
import type { Reporter, SerializedError, TestCase, TestModule } from 'vitest/node';

/**
 * A failed test runs once more: one that races says little about a change, and must be fixed all the same. Not so what
 * looks for rare bugs: a property with its random example, or a table that contradicts a response (`UNTRUE` in
 * test/faults/support/ledger.ts).
 */
export const MAY_PASS_LATER = /^(?!Property failed after|responses that the tables contradict)/;

/** What failed, as the last lines of `.ci/run` name it. */
interface Failure {
  /** That of the test; undefined for an error outside every file. */
  readonly file?: string;
  readonly text: string;
  readonly mayPassLater: boolean;
}

export default class OutcomeReporter implements Reporter {
  readonly #flaky: TestCase[] = [];

  onTestCaseResult(test: TestCase): void {
    if (test.diagnostic()?.flaky) this.#flaky.push(test);
  }

  /** @param errors that no test waited for */
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    this.nameFlaky();
    const { CDP_TEST_OUTCOME: path } = process.env;
    if (path === undefined) return;
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const inState = (wanted: string): TestCase[] => tests.filter((test) => test.result().state === wanted);
    // A file may fail besides its tests, if it cannot be loaded or cannot clean up.
    const broken = modules.filter(
      (module) => module.errors().length > 0 || ['queued', 'pending'].includes(module.state()),
    );
    const failed: Failure[] = [
      ...inState('failed').map((test) => ({
        file: test.module.relativeModuleId,
        text: `${test.module.relativeModuleId} > ${test.fullName}${firstLine(test)}`,
        mayPassLater: MAY_PASS_LATER.test(test.result().errors?.[0]?.message ?? ''),
      })),
      ...broken.map(({ relativeModuleId: file }) => ({ file, text: file, mayPassLater: true })),
      ...errors.map((error) => ({ text: error.message, mayPassLater: false })),
    ];
    writeFileSync(path, JSON.stringify({ passed: inState('passed').length, failed }));
  }

  private nameFlaky(): void {
    if (this.#flaky.length === 0) return;
    console.log(
      `\nPassed only when run again, ${this.#flaky.length} of the tests. Each is a bug of the test or the program:`,
    );
    for (const test of this.#flaky) {
      console.log(`  ${test.module.moduleId} > ${test.fullName}`);
      for (const { message, stack, diff } of test.result().errors ?? []) console.log(describe(message, stack, diff));
    }
  }
}

/** What its first failure says, short enough for a list. */
function firstLine(test: TestCase): string {
  const message = test.result().errors?.[0]?.message ?? '';
  return message === '' ? '' : `: ${message.split('\n', 1)[0]?.slice(0, 300)}`;
}

/** The message, what differs, and the lines of the stack that are ours. */
function describe(message: string, stack = '', diff = ''): string {
  const places = stack.split('\n').filter((line) => /^ +at /.test(line) && !line.includes('node_modules'));
  return [`    ${message}`, ...diff.split('\n'), ...places].join('\n');
}
