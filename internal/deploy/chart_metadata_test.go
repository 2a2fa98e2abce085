//go:build e2e

package deploy_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/deploy"
)

// TestChartImages checks that every image that Artifact Hub scans is an image from the values.
func TestChartImages(t *testing.T) {
	text, err := os.ReadFile(chartSource + "Chart.yaml")
	check(t, err)
	var chart struct{ Annotations map[string]string }
	check(t, yaml.Unmarshal(text, &chart))
	var images []struct{ Name, Image string }
	check(t, yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/images"]), &images))
	values, err := os.ReadFile(chartSource + "values.yaml")
	check(t, err)
	for _, image := range images {
		repository, tag, _ := strings.Cut(image.Image, ":")
		if ":"+tag != deploy.Tag || !strings.Contains(string(values), "repository: "+repository+"\n") {
			t.Errorf("%s: %s is not an image of the values with the tag %s", image.Name, image.Image, deploy.Tag)
		}
	}
	if want := strings.Count(string(values), "repository: "); len(images) != want {
		t.Errorf("%d images, want %d", len(images), want)
	}
	for _, key := range []string{"links", "changes"} {
		var list []struct{ Name, Kind string }
		if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/"+key]), &list); err != nil || len(list) == 0 {
			t.Errorf("%s: %v, %v", key, list, err)
		}
	}
}

func TestChartVersion(t *testing.T) {
	text, err := os.ReadFile(chartSource + "Chart.yaml")
	check(t, err)
	var got struct{ Version, AppVersion string }
	check(t, yaml.Unmarshal(text, &got))
	if ":"+got.AppVersion != deploy.Tag || "v"+got.Version != got.AppVersion {
		t.Errorf("the chart has the version %s of %s, want %s", got.Version, got.AppVersion, deploy.Tag)
	}
	readme, err := os.ReadFile(chartSource + "README.md")
	check(t, err)
	if n := bytes.Count(readme, []byte("--version "+got.Version+" ")); n != 2 {
		t.Errorf("the README names the version %d times, want twice", n)
	}
}
