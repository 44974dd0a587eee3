//! Tests of how settings are layered, checked and documented.

mod documents;

use super::*;

fn from_text(text: &str) -> Result<Settings, SettingsError> {
    let mut layers = Layers::of(section::all());
    layers.add_file(text, &Origin::File("my.toml".into()))?;
    Settings::build(&layers)
}

fn from_variable(name: &str, value: &str) -> Result<Settings, SettingsError> {
    Settings::from_layers(None, [(name.to_owned(), value.to_owned())], &Flags::default())
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let settings = Settings::default();
    assert_eq!(settings.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.server.data_dir, Path::new("./data"));
    assert_eq!(settings.limits, Limits::default());
    assert!(settings.sandbox.enabled);
    assert!(settings.admin.token.is_none() && settings.secrets.master_key.is_none());
}

#[test]
fn later_layers_win() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("my.toml");
    std::fs::write(&file, "[limits]\notp_per_phone_10m = 7\notp_per_phone_hour = 8\n").unwrap();
    let variable = ("POSTRIDER__LIMITS__OTP_PER_PHONE_HOUR".to_owned(), "9".to_owned());
    let other = ("POSTRIDER_SERVER".to_owned(), "not a setting".to_owned());
    let flags = Flags { listen: Some("[::1]:1".parse().unwrap()), data_dir: Some("d".into()) };
    let settings = Settings::from_layers(Some(&file), [variable, other], &flags).unwrap();
    assert_eq!(settings.limits.otp_per_phone_10m, 7);
    assert_eq!(settings.limits.otp_per_phone_hour, 9);
    assert_eq!(settings.limits.otp_per_workspace_hour, 1000);
    assert_eq!(settings.server.listen.port(), 1);
    assert_eq!(settings.server.data_dir, Path::new("d"));
}

#[test]
fn a_mistake_names_where_what_and_what_is_allowed() {
    let cases = [
        (
            from_text("[server]\nlisen = \"x\""),
            "my.toml: unknown key `server.lisen`; allowed: listen,",
        ),
        (
            from_text("[serve]\nlisten = \"x\""),
            "my.toml: unknown key `serve`; allowed: the sections",
        ),
        (from_text("[serve]"), "my.toml: unknown key `serve`; allowed: the sections"),
        (from_text("server = 1"), "my.toml: unknown key `server`; allowed: the sections"),
        (
            from_text("[server]\nlisten = \"localhost\""),
            "my.toml: bad value of `server.listen`: must be an IP address and a port",
        ),
        (
            from_text("[limits]\notp_per_phone_10m = -1"),
            "my.toml: bad value of `limits.otp_per_phone_10m`: must be a whole number from 0",
        ),
        (
            from_text("[server]\nerrors_url = \"https://x/<\""),
            "my.toml: bad value of `server.errors_url`: must be \"auto\", empty, or a path or an http(s)",
        ),
        (from_text("[limits"), "my.toml: not TOML: "),
        (
            from_variable("POSTRIDER__LIMITS__NO", "1"),
            "environment variable POSTRIDER__LIMITS__NO: unknown key `limits.no`; allowed: key_req",
        ),
        (
            from_variable("POSTRIDER__SANDBOX", "1"),
            "environment variable POSTRIDER__SANDBOX: unknown key `sandbox.`; allowed: enabled",
        ),
        (
            from_variable("POSTRIDER__SANDBOX__ENABLED", "1"),
            "environment variable POSTRIDER__SANDBOX__ENABLED: bad value of `sandbox.enabled`: \
             must be true or false",
        ),
    ];
    for (result, expected) in cases {
        let message = result.map(|_| ()).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn a_mistake_in_a_secret_does_not_show_it() {
    let secret = "c0ffee".repeat(10);
    for result in [
        from_variable("POSTRIDER__SECRETS__MASTER_KEY", &secret),
        from_text(&format!("[secrets]\nmaster_key = \"{secret}")),
    ] {
        let message = result.map(|_| ()).unwrap_err().to_string();
        assert!(!message.contains("c0ffee"), "{message}");
    }
}

#[test]
fn an_admin_token_cannot_be_guessed() {
    let given = |token: &str| from_variable("POSTRIDER__ADMIN__TOKEN", token);
    for bad in ["t", "fifteen-letters", "sixteen and a space", &"t".repeat(257)] {
        let message = given(bad).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("16 to 256"), "{message}");
        assert!(bad.len() < 15 || !message.contains(bad), "{message}");
    }
    for good in ["sixteen-letters-", &"t".repeat(256)] {
        assert!(given(good).unwrap().admin.token.is_some(), "{good}");
    }
    assert!(given("").unwrap().admin.token.is_none());
}

#[test]
fn earlier_master_keys_have_lower_versions() {
    let key = "ab".repeat(32);
    let text = |version| {
        format!(
            "[secrets]\nmaster_key = \"{key}\"\nmaster_key_version = {version}\n\
             previous_master_keys = \"1={key}\""
        )
    };
    assert_eq!(from_text(&text(2)).unwrap().secrets.previous_master_keys.len(), 1);
    let message = from_text(&text(1)).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("below secrets.master_key_version, which is 1"), "{message}");
}

#[test]
fn production_has_no_sandbox_and_starts_with_its_secrets() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/production.toml");
    let variables = [
        ("POSTRIDER__ADMIN__TOKEN".to_owned(), "t".repeat(40)),
        ("POSTRIDER__SECRETS__MASTER_KEY".to_owned(), "0a".repeat(32)),
    ];
    let settings = Settings::from_layers(Some(&file), variables, &Flags::default()).unwrap();
    assert!(!settings.sandbox.enabled);
    assert_eq!(settings.log.format, LogFormat::Json);
    assert!(settings.admin.token.is_some() && settings.secrets.master_key.is_some());
}

#[test]
fn what_is_in_force_is_reported_without_secrets() {
    let key = "ab".repeat(32);
    let text = format!(
        "[secrets]\nmaster_key = \"{key}\"\nmaster_key_version = 2\n\
         previous_master_keys = \"1={key}\"\n[admin]\ntoken = \"hush-hush-hush-hush\""
    );
    let mut layers = Layers::of(section::all());
    layers.add_file(&text, &Origin::Defaults).unwrap();
    let variables =
        [("EMAIL__PASSWORD", "hush"), ("SERVER__DOCS", "false"), ("LOG__LEVEL", "warn")];
    let variables = variables.map(|(key, value)| (format!("POSTRIDER__{key}"), value.to_owned()));
    layers.add_variables(variables).unwrap();
    let shown = layers.in_force();
    for secret in layers::SECRETS {
        assert_eq!(shown[secret], "set", "{secret}");
    }
    let all = serde_json::to_string(&shown).unwrap();
    assert!(!all.contains("hush") && !all.contains("abab"), "{all}");
    assert_eq!(shown["server.docs"], false);
    assert_eq!(
        (&shown["log.level"], &shown["secrets.master_key_version"]),
        (&"warn".into(), &2.into())
    );
    // Every name that sounds like a secret is one, or a path or a number.
    let sounds = |name: &str| ["token", "password", "key"].iter().any(|it| name.contains(it));
    let known = |name: &str| layers::SECRETS.contains(&name);
    let harmless = |name: &str| {
        let value = &shown[name];
        let is_path = name.ends_with("_file") || name == "cluster.tls_key";
        is_path || value.is_number() || value.is_boolean()
    };
    let open: Vec<_> =
        shown.keys().filter(|name| sounds(name) && !known(name) && !harmless(name)).collect();
    assert!(open.is_empty(), "{open:?}");
    // A secret that is not given is not reported as set.
    assert_eq!(Settings::default().in_force()["admin.token"], "");
    let flags = Flags { listen: Some(([127, 0, 0, 1], 7).into()), data_dir: Some("there".into()) };
    let settings = Settings::from_layers(None, [], &flags).unwrap();
    assert_eq!(settings.in_force()["server.listen"], "127.0.0.1:7");
    assert_eq!(settings.in_force()["server.data_dir"], "there");
}
