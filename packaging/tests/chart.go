// Renders a Helm chart as Helm does it, as far as this chart needs: Go's templates with sprig, and
// `include`, `toYaml`, `required` and `.Files.Get`. Debian has no Helm.
//
//	chart CHART_DIRECTORY VALUES...
//
// Each file of values is laid over the chart's own.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type files string

// Get gives the text of a file of the chart.
func (chart files) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(chart), name))
	return string(text), err
}

func read(name string) map[string]any {
	text, err := os.ReadFile(name)
	check(err)
	values := map[string]any{}
	check(yaml.Unmarshal(text, &values))
	return floats(values).(map[string]any)
}

// Helm reads numbers as floats.
func floats(value any) any {
	switch it := value.(type) {
	case map[string]any:
		for key, inner := range it {
			it[key] = floats(inner)
		}
	case []any:
		for at, inner := range it {
			it[at] = floats(inner)
		}
	case int:
		return float64(it)
	}
	return value
}

func lay(over, below map[string]any) {
	for key, value := range over {
		inner, isMap := value.(map[string]any)
		old, wasMap := below[key].(map[string]any)
		if isMap && wasMap {
			lay(inner, old)
		} else {
			below[key] = value
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func main() {
	chart := os.Args[1]
	values := read(filepath.Join(chart, "values.yaml"))
	for _, name := range os.Args[2:] {
		lay(read(name), values)
	}
	about := read(filepath.Join(chart, "Chart.yaml"))
	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data any) (string, error) {
		var made bytes.Buffer
		err := all.ExecuteTemplate(&made, name, data)
		return made.String(), err
	}
	functions["toYaml"] = func(value any) (string, error) {
		var made bytes.Buffer
		encoder := yaml.NewEncoder(&made)
		encoder.SetIndent(2)
		err := encoder.Encode(value)
		return strings.TrimSuffix(made.String(), "\n"), err
	}
	functions["required"] = func(why string, value any) (any, error) {
		if value == nil || value == "" {
			return nil, errors.New(why)
		}
		return value, nil
	}
	all.Funcs(functions)
	names, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(err)
		_, err = all.New(filepath.Base(name)).Parse(string(text))
		check(err)
	}
	data := map[string]any{
		"Values":  values,
		"Files":   files(chart),
		"Chart":   map[string]any{"Name": about["name"], "AppVersion": about["appVersion"], "Version": about["version"]},
		"Release": map[string]any{"Name": "release", "Namespace": "default", "Service": "Helm"},
	}
	for _, name := range names {
		var made bytes.Buffer
		check(all.ExecuteTemplate(&made, filepath.Base(name), data))
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(made.String()) != "" {
			fmt.Printf("---\n%s\n", made.String())
		}
	}
}
