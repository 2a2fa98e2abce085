package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// IdlePowers is the value of a repeatable flag that sets the idle power of a GPU model.
type IdlePowers map[string]gpu.Watts

// mostIdlePower is the maximum value in watts. It is much higher than the power limit of any GPU.
const mostIdlePower = 10_000

// Set adds the idle power of a model, in the form model=watts.
func (p *IdlePowers) Set(s string) error {
	i := strings.LastIndex(s, "=")
	if i < 0 {
		return errors.New("must be model=watts, such as NVIDIA H100 80GB HBM3=70")
	}
	model := strings.TrimSpace(s[:i])
	watts, err := strconv.ParseFloat(strings.TrimSpace(s[i+1:]), 64)
	switch {
	case model == "":
		return errors.New("the model must not be empty")
	case err != nil || !(watts > 0 && watts <= mostIdlePower):
		return fmt.Errorf("the power must be a number of watts above 0, at most %d", mostIdlePower)
	}
	if _, known := (*p)[model]; known {
		return errors.New("the model must not be given twice")
	}
	if *p == nil {
		*p = make(IdlePowers)
	}
	(*p)[model] = gpu.Watts(watts)
	return nil
}

// String returns the idle powers in the form of the flag.
func (p *IdlePowers) String() string {
	var all []string
	for _, model := range slices.Sorted(maps.Keys(*p)) {
		all = append(all, fmt.Sprintf("%s=%v", model, float64((*p)[model])))
	}
	return strings.Join(all, " ")
}
