//go:build e2e

package rules_test

import (
	"time"

	"github.com/gpuledger/gpuledger/test/worlds"
)

// units contains a machine without Kubernetes.
func units() world {
	h := worlds.Units()
	return world{name: "units", history: h, evaluate: 15 * time.Minute, questions: onUnits(h)}
}

// onUnits returns the questions about units at the end of the hour in which the container started. The first hour of a
// Prometheus does not count.
func onUnits(h *worlds.History) []question {
	const at = 4 * time.Hour
	counted := worlds.Span{From: time.Hour, To: at}
	ask := func(title string, want map[string]float64) question {
		return question{title, at, map[string]string{"window": "3h", "unit": "4711"}, want}
	}
	ofUser := func(labels map[string]string) string {
		uid := map[string]string{"4711": "1001", "4712": "1002", "1001": "1001"}[labels["unit"]]
		return worlds.Series("", map[string]string{"user": uid})
	}
	board := func(uuid, serial string) string {
		return worlds.Some(map[string]string{"node": "a", "UUID": uuid, "serial": serial, "chassis_serial": "C1"}, "node", "UUID", "serial", "chassis_serial")
	}
	return []question{
		ask("Energy of each unit", h.Sum(worlds.UnitEnergy, counted, worlds.By("manager", "unit"))),
		ask("Energy of each manager", h.Sum(worlds.UnitEnergy, counted, worlds.By("manager"))),
		ask("Energy of each user", h.Sum(worlds.UnitEnergy, counted, ofUser)),
		ask("Idle energy of each unit", h.Sum(worlds.UnitIdle, counted, worlds.By("manager", "unit"))),
		ask("GPU hours of each unit", hours(h.Sum(worlds.UnitGPU, counted, worlds.By("manager", "unit")))),
		ask("Active GPU hours of each unit", hours(h.Sum(worlds.UnitActive, counted, worlds.By("manager", "unit")))),
		ask("Boards of a job", map[string]float64{board("GPU-1", "S1"): 1, board("GPU-2", "S2"): 1}),
		ask("Units that hold GPUs without work", map[string]float64{`{UUID="GPU-1",manager="slurm",node="a",unit="4712"}`: 1}),
	}
}
