/**
 * What a run of vitest came to. Names, at its end, each test that passed only when it was run again, with what it had
 * failed with. Where CDP_TEST_OUTCOME names a file, `.ci/run` finds the counts there, file by file.
 */
import { writeFileSync } from 'node:fs';
import type { Reporter, SerializedError, TestCase, TestModule } from 'vitest/node';

/**
 * A test that failed runs once more, and so does its file at the end of `.ci/run`: one that races says little of a
 * change, and must be mended all the same. Not so what looks for rare defects: a property with its random example, or
 * a table that contradicts an answer (`UNTRUE` in test/faults/support/ledger.ts).
 */
export const MAY_PASS_LATER = /^(?!Property failed after|answers that the tables contradict)/;

/** Of one file; a failure beside its tests, as when it cannot clear away, is one more. */
interface FileOutcome {
  readonly file: string;
  readonly passed: number;
  readonly failed: number;
  readonly mayPassLater: boolean;
}

export default class OutcomeReporter implements Reporter {
  readonly #flaky: TestCase[] = [];

  onTestCaseResult(test: TestCase): void {
    if (test.diagnostic()?.flaky) this.#flaky.push(test);
  }

  /** @param errors that no test waited for; most say in which file */
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    this.nameFlaky();
    const { CDP_TEST_OUTCOME: path } = process.env;
    if (path === undefined) return;
    const files = modules.map((module) => outcome(module, errors));
    const elsewhere = errors.filter((error) => !files.some(({ file }) => isOf(error, file)));
    // The end of a worker names no file, but its file has not ended.
    const brokenOff = modules.filter((module) => ['queued', 'pending'].includes(module.state()));
    const failedElsewhere = Math.max(0, elsewhere.length - brokenOff.length);
    writeFileSync(path, JSON.stringify({ files, failedElsewhere }));
  }

  private nameFlaky(): void {
    if (this.#flaky.length === 0) return;
    console.log(
      `\nPassed only when run again, ${this.#flaky.length} of the tests. Each is a defect, of the test or of the program:`,
    );
    for (const test of this.#flaky) {
      console.log(`  ${test.module.moduleId} > ${test.fullName}`);
      for (const { message, stack, diff } of test.result().errors ?? []) console.log(told(message, stack, diff));
    }
  }
}

const isOf = (error: SerializedError, file: string): boolean => error['VITEST_TEST_PATH'] === file;

function outcome(module: TestModule, errors: readonly SerializedError[]): FileOutcome {
  const tests = [...module.children.allTests()].map((test) => test.result());
  const failed = tests.filter(({ state }) => state === 'failed');
  const isWhole = module.state() === 'passed' || module.state() === 'skipped';
  const beside = errors.some((error) => isOf(error, module.moduleId)) || (failed.length === 0 && !isWhole);
  return {
    file: module.moduleId,
    passed: tests.filter(({ state }) => state === 'passed').length,
    failed: failed.length + Number(beside),
    mayPassLater: failed.flatMap((test) => test.errors ?? []).every(({ message }) => MAY_PASS_LATER.test(message)),
  };
}

/** The message, what differs, and the lines of the stack that are ours. */
function told(message: string, stack = '', diff = ''): string {
  const places = stack.split('\n').filter((line) => /^ +at /.test(line) && !line.includes('node_modules'));
  return [`    ${message}`, ...diff.split('\n'), ...places].join('\n');
}
