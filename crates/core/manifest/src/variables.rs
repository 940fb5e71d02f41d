//! Variables in the arguments of a check: a closed set, substituted once and from left to right, so that values are never
//! expanded again.

/// A value that the platform knows when it runs a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The member's name.
    MemberName,
    /// The member's id.
    MemberId,
    /// The member's address in the instance's network.
    MemberAddress,
    /// The key of the member's component.
    ComponentKey,
    /// The instance's name.
    InstanceName,
    /// The instance's id.
    InstanceId,
}

impl Variable {
    /// All values.
    pub const ALL: [Variable; 6] = [
        Self::MemberName,
        Self::MemberId,
        Self::MemberAddress,
        Self::ComponentKey,
        Self::InstanceName,
        Self::InstanceId,
    ];

    /// Returns its name between braces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemberName => "member.name",
            Self::MemberId => "member.id",
            Self::MemberAddress => "member.address",
            Self::ComponentKey => "component.key",
            Self::InstanceName => "instance.name",
            Self::InstanceId => "instance.id",
        }
    }
}

/// Values of the variables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Values<'a> {
    /// The member's name.
    pub member_name: &'a str,
    /// The member's id.
    pub member_id: &'a str,
    /// The member's address in the instance's network.
    pub member_address: &'a str,
    /// The key of the member's component.
    pub component_key: &'a str,
    /// The instance's name.
    pub instance_name: &'a str,
    /// The instance's id.
    pub instance_id: &'a str,
}

impl<'a> Values<'a> {
    fn of(&self, variable: Variable) -> &'a str {
        match variable {
            Variable::MemberName => self.member_name,
            Variable::MemberId => self.member_id,
            Variable::MemberAddress => self.member_address,
            Variable::ComponentKey => self.component_key,
            Variable::InstanceName => self.instance_name,
            Variable::InstanceId => self.instance_id,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Filled(Variable),
}

/// Substitutes every variable in the text; `{{` and `}}` are escaped braces. Anything else in braces is an error, with a
/// message that lists the variables.
pub fn fill(text: &str, values: &Values<'_>) -> Result<String, String> {
    let pieces = pieces(text)?.into_iter().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Filled(variable) => values.of(variable),
    });
    Ok(pieces.collect())
}

/// Returns the variables in a text, in order; the error of [`fill`] if it is invalid.
pub fn variables(text: &str) -> Result<Vec<Variable>, String> {
    let variables = pieces(text)?.into_iter().filter_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Filled(variable) => Some(variable),
    });
    Ok(variables.collect())
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(place) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(place);
        pieces.push(Piece::Text(before));
        if after.starts_with("{{") || after.starts_with("}}") {
            pieces.push(Piece::Text(&after[..1]));
            rest = &after[2..];
            continue;
        }
        let Some((name, following)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) else {
            return Err("a brace stands alone: write {{ or }} for a literal brace".to_owned());
        };
        let Some(variable) = Variable::ALL.into_iter().find(|variable| variable.as_str() == name) else {
            let known = Variable::ALL.map(|variable| format!("{{{}}}", variable.as_str())).join(", ");
            let name: String = name.chars().take(60).collect();
            return Err(format!(
                "{{{name}}} is not a variable: there are {known}, and {{{{ and }}}} stand for braces"
            ));
        };
        pieces.push(Piece::Filled(variable));
        rest = following;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUES: Values<'static> = Values {
        member_name: "worker-3",
        member_id: "mem_1",
        member_address: "10.64.0.5",
        component_key: "worker",
        instance_name: "lab",
        instance_id: "ins_1",
    };

    #[test]
    fn each_variable_stands_for_what_it_says() {
        let text = "{member.name} {member.id} {member.address} {component.key} {instance.name} {instance.id}";
        assert_eq!(fill(text, &VALUES).unwrap(), "worker-3 mem_1 10.64.0.5 worker lab ins_1");
        assert_eq!(fill("{{member.name}}", &VALUES).unwrap(), "{member.name}");
        assert_eq!(fill("{{{member.name}}}", &VALUES).unwrap(), "{worker-3}");
        assert_eq!(fill("", &VALUES).unwrap(), "");
    }

    #[test]
    fn variable_outside_the_set_is_refused_with_the_allowed_ones() {
        for odd in [
            "{}",
            "{",
            "}",
            "a}b",
            "{member.name",
            "{member}",
            "{ member.name}",
            "{MEMBER.NAME}",
            "{secret.key}",
            "{member.name}}",
            "{{member.name}",
            "{member.{member.name}}",
            "{instance.config}",
            "{é}",
        ] {
            assert!(fill(odd, &VALUES).is_err(), "{odd}");
            assert!(variables(odd).is_err(), "{odd}");
        }
        assert!(fill("{secret.key}", &VALUES).unwrap_err().contains("{member.address}"));
    }

    fn anything() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("{".to_owned()),
            Just("}".to_owned()),
            Just("{{".to_owned()),
            Just("}}".to_owned()),
            proptest::sample::select(Variable::ALL.to_vec())
                .prop_map(|variable| format!("{{{}}}", variable.as_str())),
            "[a-z.{}é ]{0,8}",
        ];
        proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    /// An independent implementation, character by character.
    fn oracle(text: &str, values: [&str; 6]) -> Option<String> {
        let (mut filled, mut rest) = (String::new(), text.chars().peekable());
        while let Some(character) = rest.next() {
            match character {
                '{' | '}' if rest.peek() == Some(&character) => {
                    rest.next();
                    filled.push(character);
                }
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next()? {
                            '}' => break,
                            other => name.push(other),
                        }
                    }
                    let which = [
                        "member.name",
                        "member.id",
                        "member.address",
                        "component.key",
                        "instance.name",
                        "instance.id",
                    ]
                    .iter()
                    .position(|known| *known == name)?;
                    filled.push_str(values[which]);
                }
                '}' => return None,
                other => filled.push(other),
            }
        }
        Some(filled)
    }

    proptest! {
        #[test]
        fn a_value_is_never_expanded_again(values in proptest::collection::vec(anything(), 6)) {
            let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|index: usize| values[index].as_str());
            let values = Values { member_name: a, member_id: b, member_address: c, component_key: d, instance_name: e,
                                  instance_id: f };
            for (variable, value) in Variable::ALL.into_iter().zip([a, b, c, d, e, f]) {
                let text = format!("<{{{}}}>", variable.as_str());
                prop_assert_eq!(fill(&text, &values).unwrap(), format!("<{value}>"));
            }
        }

        #[test]
        fn it_agrees_with_the_oracle_and_nothing_else_passes(text in anything(), value in "[a-z{}.]{0,6}") {
            let values = Values { member_name: &value, member_id: "2", member_address: "3", component_key: "4",
                                  instance_name: "5", instance_id: "6" };
            prop_assert_eq!(fill(&text, &values).ok(), oracle(&text, [&value, "2", "3", "4", "5", "6"]));
            prop_assert_eq!(fill(&text, &values).is_ok(), variables(&text).is_ok());
        }

        #[test]
        fn an_escaped_text_comes_back_as_it_was(text in "\\PC{0,40}") {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(fill(&escaped, &VALUES).unwrap(), text);
        }
    }
}
