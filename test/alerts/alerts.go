// Package alerts reads the alerts, their unit tests and their runbooks, so that tests can compare them.
package alerts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Alert is an alerting rule.
type Alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Rules contains the recording and alerting rules of a file.
type Rules struct {
	Groups []struct {
		Rules []struct {
			Alert
			Record string `json:"record"`
		} `json:"rules"`
	} `json:"groups"`
}

// Read returns the alerts and the names of recorded series from the rule files of a folder.
func Read(folder string) (alerts []Alert, recorded []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		var rules Rules
		if err := decode(file, &rules); err != nil {
			return nil, nil, err
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.Record != "" {
					recorded = append(recorded, r.Record)
				} else {
					alerts = append(alerts, r.Alert)
				}
			}
		}
	}
	return alerts, recorded, nil
}

// Cases contains the number of unit tests in which an alert fires, and the number in which it does not fire.
type Cases struct{ Firing, Silent int }

// ReadCases returns the cases of each alert from the test files for promtool.
func ReadCases(files ...string) (map[string]Cases, error) {
	cases := make(map[string]Cases)
	for _, file := range files {
		var tests struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string `json:"alertname"`
					ExpAlerts []any  `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			} `json:"tests"`
		}
		if err := decode(file, &tests); err != nil {
			return nil, err
		}
		for _, t := range tests.Tests {
			for _, c := range t.AlertRuleTest {
				n := cases[c.Alertname]
				if len(c.ExpAlerts) > 0 {
					n.Firing++
				} else {
					n.Silent++
				}
				cases[c.Alertname] = n
			}
		}
	}
	return cases, nil
}

func decode(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Runbook returns the file name of an alert's runbook, such as gpuledger-gpu-lost.md for GPULedgerGPULost.
func Runbook(alert string) string {
	var name strings.Builder
	rest, _ := strings.CutPrefix(alert, "GPULedger")
	letters := []rune(rest)
	for i, r := range letters {
		begins := unicode.IsUpper(r) && (i == 0 || !unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return "gpuledger" + name.String() + ".md"
}
