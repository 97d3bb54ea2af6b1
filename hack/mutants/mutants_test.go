// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

const repository = "../.."

func TestEveryMutantApplies(t *testing.T) {
	if err := check(repository, all()); err != nil {
		t.Error(err)
	}
	const least = 40
	if got := len(all()); got < least {
		t.Errorf("there are %d mutants; expected at least %d", got, least)
	}
}

func TestACatalogWithAMistakeIsRefused(t *testing.T) {
	sound := mutant{rule: "a rule", file: "hack/mutants/mutants_test.go", old: "package " + "main", new: "package other", by: inRelease}
	twice := sound
	cases := map[string][]mutant{
		"two mutants of one rule": {sound, twice},
		"a text that is not there": {{
			rule: "a rule", file: sound.file, old: "this text is " + "nowhere", by: inRelease,
		}},
		"a file that is not there": {{rule: "a rule", file: "nowhere.go", old: "a", by: inRelease}},
		"no package has to notice": {{rule: "a rule", file: sound.file, old: sound.old}},
	}
	if err := check(repository, []mutant{sound}); err != nil {
		t.Fatalf("a sound catalog was refused: %v", err)
	}
	for name, mutants := range cases {
		t.Run(name, func(t *testing.T) {
			if check(repository, mutants) == nil {
				t.Error("it was accepted; expected an error")
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	cases := map[string]struct{ output, want string }{
		"a test":                               {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\nFAIL\n", "TestA"},
		"a spec":                               {"\x1b[38;5;9m  [FAIL]\x1b[0m a policy [It] refuses it\n--- FAIL: TestSuite (3s)\n", "a policy [It] refuses it"},
		"a spec, and what comes before others": {"[FAIL] removals [BeforeAll] is judged\n[FAIL] a policy [It] refuses it\n--- FAIL: TestSuite (3s)\n", "a policy [It] refuses it"},
		"a suite that did not start":           {"  [FAIL] [BeforeSuite] \n--- FAIL: TestSuite (3s)\n", ""},
		"a panic":                              {"panic: boom\n\ngoroutine 1\n", "boom"},
		"what is broken":                       {"FAIL\tp [build failed]\n", ""},
		"nothing":                              {"exit status 1\n", ""},
		"a history":                            {"--- FAIL: TestExplore (2s)\n    sim_test.go:9: seed 3, history 2: safety at 5m: a, b\nFAIL\n", "seed 3, history 2: safety at 5m: a, b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := verdict(c.output)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("verdict gave %q, %v; expected %q", got, err, c.want)
			}
		})
	}
}
