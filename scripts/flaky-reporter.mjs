/** Names, at the end of a run of vitest, each test that passed only when it was run again, with what it had failed with. */
export default class FlakyReporter {
  #flaky = [];

  onTestCaseResult(test) {
    if (test.diagnostic()?.flaky) this.#flaky.push(test);
  }

  onTestRunEnd() {
    if (this.#flaky.length === 0) return;
    console.log(
      `\nPassed only when run again, ${this.#flaky.length} of the tests. Each is a defect, of the test or of the program:`,
    );
    for (const test of this.#flaky) {
      console.log(`  ${test.module.moduleId} > ${test.fullName}`);
      for (const { message, stack } of test.result().errors ?? []) console.log(placed(message, stack));
    }
  }
}

/** The message, and the lines of the stack that are ours. */
function placed(message, stack = '') {
  const places = stack.split('\n').filter((line) => /^ +at /.test(line) && !line.includes('node_modules'));
  return [`    ${message}`, ...places].join('\n');
}
