package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Sample is an element of a query's result.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates a query at a time, on a server with the API of Prometheus. parameters contains pairs of a name and a
// value.
func Query(ctx context.Context, server, promql string, at time.Time, parameters ...string) ([]Sample, error) {
	values := url.Values{"query": {promql}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}
	for i := 0; i+1 < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/api/v1/query?"+values.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s, %s: %w", server, response.Status, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	var samples []Sample
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		samples = append(samples, Sample{r.Metric, v})
	}
	return samples, nil
}
